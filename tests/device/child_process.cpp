#include "child_process.hpp"

#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <stdexcept>
#include <system_error>
#include <utility>

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <rdmaxx/rdmaxx.hpp>

#include "completion_waiter.hpp"

extern char** environ;

namespace rdmaxx::device_tests {

child_process::child_process(const std::vector<std::string>& command) {
  std::array<int, 2> pipe{};
  if (::pipe2(pipe.data(), O_CLOEXEC) != 0)
    throw std::system_error(errno, std::generic_category(), "pipe2");
  std::vector<char*> arguments;
  arguments.reserve(command.size() + 1);
  // posix_spawn takes pointers to non-const and does not write through them.
  for (const auto& argument : command) {
    arguments.push_back(
        const_cast<char*>(argument.c_str()));  // NOLINT(cppcoreguidelines-pro-type-const-cast)
  }
  arguments.push_back(nullptr);
  posix_spawn_file_actions_t actions{};
  ::posix_spawn_file_actions_init(&actions);
  ::posix_spawn_file_actions_adddup2(&actions, pipe[1], STDOUT_FILENO);
  ::posix_spawn_file_actions_adddup2(&actions, pipe[1], STDERR_FILENO);
  const int failure =
      ::posix_spawn(&pid_, arguments[0], &actions, nullptr, arguments.data(), environ);
  ::posix_spawn_file_actions_destroy(&actions);
  ::close(pipe[1]);
  from_child_ = pipe[0];
  if (failure != 0) {
    ::close(from_child_);
    throw std::system_error(failure, std::generic_category(), command.front());
  }
}

child_process::~child_process() {
  ::close(from_child_);
  if (pid_ < 0) return;
  ::kill(pid_, SIGKILL);
  ::waitpid(pid_, nullptr, 0);
}

bool child_process::read_more() {
  if (!wait_readable(from_child_, patience).value())
    throw std::runtime_error("the child printed only: " + unread_);
  std::array<char, 4096> room{};
  const auto count = ::read(from_child_, room.data(), room.size());
  if (count < 0) throw std::system_error(errno, std::generic_category(), "read");
  unread_.append(room.data(), static_cast<std::size_t>(count));
  return count > 0;
}

std::string child_process::line() {
  auto end = unread_.find('\n');
  while (end == std::string::npos) {
    if (!read_more()) throw std::runtime_error("the child ended after: " + unread_);
    end = unread_.find('\n');
  }
  auto text = unread_.substr(0, end);
  unread_.erase(0, end + 1);
  return text;
}

std::string child_process::output() {
  while (read_more()) {
  }
  return std::exchange(unread_, {});
}

void child_process::send_signal(int number) const { ::kill(pid_, number); }

int child_process::wait() {
  int status = 0;
  if (::waitpid(std::exchange(pid_, -1), &status, 0) < 0)
    throw std::system_error(errno, std::generic_category(), "waitpid");
  return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

}  // namespace rdmaxx::device_tests
