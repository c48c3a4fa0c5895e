// 04: a server that sends back what it receives, with one thread per stream.
//
//   server$ 04_echo_server 0.0.0.0:7471
//   client$ 05_echo_client 10.0.0.7:7471 some words

#include <chrono>
#include <cstddef>
#include <cstdio>
#include <exception>
#include <future>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include <rdmaxx/rdmaxx.hpp>

using namespace rdmaxx;

namespace {

result<void> echo(stream peer) {
  std::vector<std::byte> buffer(65536);
  for (;;) {
    RDMAXX_TRY(const auto count, peer.read(buffer));
    if (count == 0) return peer.close();  // the peer has ended its side
    RDMAXX_TRY(peer.write_all(std::span(buffer).first(count)));
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2 && argc != 3) {
    fmt::print(stderr,
               "usage: 04_echo_server ADDRESS:PORT [STREAMS]   (port 0 takes any free one)\n"
               "Ends after STREAMS streams, if given.\n");
    return 2;
  }
  try {
    const auto waiting = stream_listener::listen(argv[1]).value();
    fmt::print("listening on {}\n", waiting.local_address());
    std::fflush(stdout);
    const unsigned long last = argc == 3 ? std::stoul(argv[2]) : 0;
    std::vector<std::future<void>> serving;
    for (unsigned long count = 0; last == 0 || count < last;) {
      std::erase_if(serving, [](const auto& one) {
        return one.wait_for(std::chrono::seconds(0)) == std::future_status::ready;
      });
      auto accepted = waiting.accept();
      if (!accepted) {
        fmt::print(stderr, "{}\n", accepted.error());
        if (accepted.error().category() == error_category::peer) continue;
        return 1;
      }
      ++count;
      serving.push_back(std::async(std::launch::async, [peer = *std::move(accepted)]() mutable {
        if (const auto done = echo(std::move(peer)); !done)
          fmt::print(stderr, "{}\n", done.error());
      }));
    }
    return 0;
  } catch (const std::exception& failure) {
    fmt::print(stderr, "04_echo_server: {}\n", failure.what());
    return 1;
  }
}
