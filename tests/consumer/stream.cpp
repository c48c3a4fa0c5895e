// Sends a word through a stream, across a network that loses packets, on the soft device of the
// loopback.
#include <cstdio>
#include <cstdlib>
#include <future>
#include <string>

#include <softverbs/faults.hpp>

#include <rdmaxx/stream/iostream.hpp>
#include <rdmaxx/stream/stream_listener.hpp>

int main() {
  setenv("SOFTVERBS_NETDEVS", "lo", 1);
  const auto plan = rdmaxx::faults::inject({rdmaxx::faults::lose().rate(0.1)}, 1).value();
  const auto waiting = rdmaxx::stream_listener::listen("127.0.0.1:0").value();
  auto connecting = std::async(std::launch::async,
                               [&] { return rdmaxx::stream::connect(waiting.local_address()); });
  rdmaxx::stream_iostream server(waiting.accept().value());
  rdmaxx::stream_iostream client(connecting.get().value());
  client << "hello\n" << std::flush;
  std::string word;
  server >> word;
  std::printf("%s arrived\n", word.c_str());
  return word == "hello" ? 0 : 1;
}
