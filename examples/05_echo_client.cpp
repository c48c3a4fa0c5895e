// 05: sends words to 04_echo_server, and prints what comes back.
//
//   client$ 05_echo_client 10.0.0.7:7471 some words

#include <cstddef>
#include <exception>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <rdmaxx/rdmaxx.hpp>

using namespace rdmaxx;
using namespace std::chrono_literals;

int main(int argc, char** argv) {
  if (argc < 3) {
    fmt::print(stderr, "usage: 05_echo_client ADDRESS:PORT WORD…\n");
    return 2;
  }
  try {
    const auto words = fmt::format("{}", fmt::join(argv + 2, argv + argc, " "));
    auto server = stream::connect(argv[1], {.read_timeout = 10s}).value();
    server.write_all(words).value();
    server.shutdown(direction::write);
    std::string answer(words.size(), '\0');
    server.read_exactly(answer).value();
    server.close().value();
    if (answer != words) throw std::runtime_error("something else came back");
    fmt::print("{}\n", answer);
    return 0;
  } catch (const std::exception& failure) {
    fmt::print(stderr, "05_echo_client: {}\n", failure.what());
    return 1;
  }
}
