// 06: a line protocol on std::iostream: a key-value store that serves one client after the other.
//
//   server$ 06_line_server 0.0.0.0:7471
//   client$ 06_line_server 10.0.0.7:7471 'set colour blue' 'get colour' 'get size'
//   client$ 06_line_server 10.0.0.7:7471 -                 (lines from standard input)
//
// Any code that reads and writes standard streams works over RDMA this way.

#include <cstdio>
#include <exception>
#include <iostream>
#include <map>
#include <span>
#include <sstream>
#include <stdexcept>
#include <string>
#include <string_view>

#include <fmt/format.h>

#include <rdmaxx/rdmaxx.hpp>

using namespace rdmaxx;

namespace {

std::string answer(std::map<std::string, std::string>& store, const std::string& line) {
  std::istringstream words(line);
  std::string verb;
  std::string key;
  std::string value;
  words >> verb >> key >> value;
  if (verb == "set") {
    store[key] = value;
    return "ok";
  }
  if (verb != "get") return "what?";
  const auto found = store.find(key);
  return found == store.end() ? "nothing" : found->second;
}

int serve(const stream_listener& waiting) {
  std::map<std::string, std::string> store;
  for (;;) {
    auto accepted = waiting.accept();
    if (!accepted) {
      fmt::print(stderr, "{}\n", accepted.error());
      continue;
    }
    stream_iostream client(*std::move(accepted));
    for (std::string line; std::getline(client, line);)
      client << answer(store, line) << '\n' << std::flush;
    if (const auto& failure = client.failure()) fmt::print(stderr, "{}\n", *failure);
  }
}

void say(stream_iostream& server, std::string_view line) {
  server << line << '\n';  // reading the answer sends it
  std::string told;
  if (!std::getline(server, told)) {
    if (const auto& failure = server.failure()) throw rdmaxx::exception(*failure);
    throw std::runtime_error("the server has ended the stream");
  }
  fmt::print("{}\n", told);
  std::fflush(stdout);
}

int ask(const char* address, std::span<char*> lines) {
  stream_iostream server(stream::connect(address).value());
  if (lines.front() == std::string_view("-")) {
    for (std::string line; std::getline(std::cin, line);) say(server, line);
  } else {
    for (const char* line : lines) say(server, line);
  }
  server.stream().shutdown(direction::write);
  server.stream().close().value();
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) {
    fmt::print(stderr,
               "usage: 06_line_server ADDRESS:PORT          (server; port 0 takes any free one)\n"
               "       06_line_server ADDRESS:PORT LINE…    (client)\n");
    return 2;
  }
  try {
    if (argc > 2) return ask(argv[1], std::span(argv, argv + argc).subspan(2));
    const auto waiting = stream_listener::listen(argv[1]).value();
    fmt::print("listening on {}\n", waiting.local_address());
    std::fflush(stdout);
    return serve(waiting);
  } catch (const std::exception& failure) {
    fmt::print(stderr, "06_line_server: {}\n", failure.what());
    return 1;
  }
}
