// Asks a connection manager what it does, and writes it down as JSON: which events, statuses,
// return values and error numbers. A recording of the kernel's rdma_cm
// (tests/data/cm_oracle_rxe.json) tells what softverbs has to do. A program like any other: it
// knows only librdmacm and libibverbs.
//
//   cm_oracle --address A --address6 B [--list] [--scenario NAME]…
//
// Each scenario runs in a process of its own, so that one that crashes or hangs is a line in the
// recording and not its end.

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <iostream>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include "scenario.hpp"

namespace {

using namespace cm_oracle;

constexpr std::chrono::seconds limit{
    180};  // unanswered requests are repeated for more than a minute

constexpr std::size_t at_once = 8;  // they mostly wait

struct options {
  surroundings where;
  std::vector<std::string> scenarios;
  bool list = false;
  bool here = false;
};

options read_arguments(const std::vector<std::string>& words) {
  options read;
  for (std::size_t i = 0; i < words.size(); ++i) {
    const auto& word = words[i];
    const auto value = [&]() -> const std::string& {
      if (i + 1 == words.size()) throw std::invalid_argument(word + " needs a value");
      return words[++i];
    };
    if (word == "--address") {
      read.where.own = socket_address::parse(value());
      const auto text = read.where.own.text();
      read.where.nobodys = socket_address::parse(text.substr(0, text.rfind('.')) + ".250");
    } else if (word == "--address6") {
      read.where.own6 = socket_address::parse(value());
    } else if (word == "--scenario") {
      read.scenarios.push_back(value());
    } else if (word == "--list") {
      read.list = true;
    } else if (word == "--here") {
      read.here = true;
    } else {
      throw std::invalid_argument("not an option: " + word);
    }
  }
  if (!read.list && (read.where.own.family() != AF_INET || read.where.own6.family() != AF_INET6)) {
    throw std::invalid_argument("--address and --address6 are needed");
  }
  return read;
}

std::vector<scenario> all_scenarios() {
  std::vector<scenario> all;
  for (const auto& group : {unanswered(), binding(), listening(), resolving(), connecting(),
                            refusing(), disconnecting(), queue_pairs(), datagrams(), multicast(),
                            channels_and_options(), blocking(), lookups()}) {
    all.insert(all.end(), group.begin(), group.end());
  }
  return all;
}

std::vector<scenario> chosen(const options& wanted) {
  auto all = all_scenarios();
  if (wanted.scenarios.empty()) return all;
  std::vector<scenario> some;
  for (const auto& name : wanted.scenarios) {
    const auto found =
        std::ranges::find_if(all, [&](const scenario& each) { return each.name == name; });
    if (found == all.end()) throw std::invalid_argument("not a scenario: " + name);
    some.push_back(*found);
  }
  return some;
}

json run_here(const scenario& which, const surroundings& where) {
  scene stage(where);
  which.run(stage);
  return stage.result();
}

/// Reads until the other end is closed; false if that takes too long.
bool read_all(int from, std::string& into) {
  const auto deadline = std::chrono::steady_clock::now() + limit;
  while (true) {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(
        deadline - std::chrono::steady_clock::now());
    pollfd readable{.fd = from, .events = POLLIN, .revents = 0};
    if (left.count() <= 0 || poll(&readable, 1, static_cast<int>(left.count())) == 0) return false;
    std::array<char, 4096> buffer{};
    const auto count = read(from, buffer.data(), buffer.size());
    if (count <= 0) return true;
    into.append(buffer.data(), static_cast<std::size_t>(count));
  }
}

json run_in_its_own_process(const scenario& which, const surroundings& where) {
  std::array<int, 2> line{};
  if (pipe2(line.data(), O_CLOEXEC) != 0) throw std::runtime_error("pipe2 failed");
  posix_spawn_file_actions_t actions{};
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, line[1], STDOUT_FILENO);
  std::vector<std::string> words{"cm_oracle", "--here",         "--scenario", which.name,
                                 "--address", where.own.text(), "--address6", where.own6.text()};
  std::vector<char*> arguments;
  arguments.reserve(words.size() + 1);
  for (auto& word : words) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  pid_t child = 0;
  const int failed =
      posix_spawn(&child, "/proc/self/exe", &actions, nullptr, arguments.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  close(line[1]);
  if (failed != 0) throw std::runtime_error("posix_spawn failed");
  std::string output;
  const bool ended = read_all(line[0], output);
  close(line[0]);
  if (!ended) kill(child, SIGKILL);
  int status = 0;
  waitpid(child, &status, 0);
  if (!ended) return "does not end";
  if (WIFSIGNALED(status)) return std::string("ended by SIG") + sigabbrev_np(WTERMSIG(status));
  if (WEXITSTATUS(status) != 0) return "ended with " + std::to_string(WEXITSTATUS(status));
  auto read = json::parse(output, nullptr, false);
  return read.is_discarded() ? json("no recording: " + output) : read;
}

/// A line for each step, so that a recording can be read and compared as text.
void print(const json& recording) {
  const auto list = [](const auto& items, const char* open, const char* close, auto&& print_item) {
    std::cout << open;
    const char* separator = "\n";
    for (const auto& item : items) {
      std::cout << std::exchange(separator, ",\n");
      print_item(item);
    }
    std::cout << '\n' << close;
  };
  list(recording.items(), "{", "}\n", [&](const auto& scenario) {
    std::cout << json(scenario.key()) << ": ";
    if (!scenario.value().is_object()) {
      std::cout << scenario.value();
      return;
    }
    list(scenario.value().items(), "{", "}", [&](const auto& side) {
      std::cout << "  " << json(side.key()) << ": ";
      list(side.value(), "[", "  ]", [](const json& step) { std::cout << "    " << step; });
    });
  });
}

int run(const options& wanted) {
  const auto scenarios = chosen(wanted);
  if (wanted.list) {
    for (const auto& each : scenarios) std::cout << each.name << '\n';
    return 0;
  }
  if (wanted.here) {
    std::cout << run_here(scenarios.at(0), wanted.where) << '\n';
    return 0;
  }
  std::vector<json> seen(scenarios.size());
  std::atomic<std::size_t> next = 0;
  const auto work = [&] {
    for (auto i = next++; i < scenarios.size(); i = next++) {
      const auto began = std::chrono::steady_clock::now();
      seen[i] = run_in_its_own_process(scenarios[i], wanted.where);
      const auto took = std::chrono::duration<double>(std::chrono::steady_clock::now() - began);
      std::cerr << std::string(scenarios[i].name) + ": " + std::to_string(took.count()) + " s\n";
    }
  };
  {
    std::array<std::jthread, at_once> workers;
    for (auto& worker : workers) worker = std::jthread(work);
  }
  json recording = json::object();
  for (std::size_t i = 0; i < seen.size(); ++i) recording[scenarios[i].name] = seen[i];
  print(recording);
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return run(read_arguments({argv + 1, argv + argc}));
  } catch (const std::exception& problem) {
    std::cerr << "cm_oracle: " << problem.what() << '\n';
    return 2;
  }
}
