// 03: the pings of 02, connected by the connection manager: no second network, no device to name.
//
//   server$ 03_cm_ping 10.0.0.7:7471
//   client$ 03_cm_ping 10.0.0.7:7471 Alice
//
// The two sides need only an address, which also determines the device. This works on iWARP, too,
// which has no other way to connect. The client introduces itself in its request, and the server
// answers with its acceptance, before the first message. Each side has posted a receive when the
// connection is established, so either may send at once.

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <exception>
#include <functional>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include <rdmaxx/rdmaxx.hpp>

using namespace rdmaxx;

namespace {

constexpr std::chrono::seconds patience(10);

/// Polling the queue alone does not notice when the peer disconnects: requests stay posted.
work_completion next_completion(cm::connection& peer, const completion_queue& cq) {
  std::array<work_completion, 1> one;
  if (peer.wait_completions(cq, one, patience).value().empty())
    throw std::runtime_error("the peer has disconnected");
  if (!one[0]) throw rdmaxx::exception(one[0].error());
  return one[0];
}

std::string text_of(std::span<const std::byte> bytes) {
  const auto* text = reinterpret_cast<const char*>(bytes.data());
  return {text, std::find(text, text + bytes.size(), '\0')};  // private data is padded with zeros
}

/// Prepares a queue pair with a receive in it, connects, and plays.
void play(const cm_id& id, bool client, const std::function<cm::connection()>& connect) {
  id.create_qp().value();
  const auto incoming = id.pd().allocate_local({.bytes = 64}).value();
  const auto outgoing = id.pd().allocate_local({.bytes = 64}).value();
  id.qp().post(recv_wr{.into = incoming.scatter()}).value();
  cm::connection peer = connect();
  fmt::print("connected: {} {}\n", peer, text_of(peer.peer_data()));

  const auto send = [&](std::string_view text) {
    std::ranges::copy(std::as_bytes(std::span(text)), outgoing.bytes().begin());
    const auto message = outgoing.gather(outgoing.bytes().first(text.size()));
    peer.qp().post(send_wr{.from = message}).value();
    (void)next_completion(peer, peer.qp().send_cq());
  };
  for (int round = 1; round <= 5; ++round) {
    if (client) send(fmt::format("ping {}", round));
    const auto bytes = next_completion(peer, peer.qp().recv_cq()).byte_len();
    fmt::print("received: {}\n", text_of(incoming.bytes().first(bytes)));
    peer.qp().post(recv_wr{.into = incoming.scatter()}).value();  // before the answer
    if (!client) send(fmt::format("pong {}", round));
  }
  if (client) peer.disconnect().value();
  peer.wait_disconnected(patience).value();
}

void serve(const char* address) {
  const auto listener = cm::listen(address).value();
  fmt::print("listening on {}\n", listener.local_address());
  std::fflush(stdout);  // another program may wait for the port
  auto request = listener.get_request(patience).value();
  const std::string welcome = "welcome, " + text_of(request.peer_data());
  const connection_parameters answer{.private_data = std::as_bytes(std::span(welcome))};
  play(request.id(), false,
       [&] { return std::move(request).accept({.parameters = answer}).value(); });
}

void visit(const char* address, std::string_view name) {
  auto id = cm::resolve(address).value();
  const connection_parameters question{.private_data = std::as_bytes(std::span(name))};
  play(id, true, [&] { return cm::connect(std::move(id), question).value(); });
}

}  // namespace

int main(int argc, char** argv) try {
  if (argc == 2) return serve(argv[1]), 0;
  if (argc == 3) return visit(argv[1], argv[2]), 0;
  fmt::print(stderr, "usage: 03_cm_ping ADDRESS:PORT [NAME of a client]\n");
  return 2;
} catch (const std::exception& failure) {
  fmt::print(stderr, "03_cm_ping: {}\n", failure.what());
  return 1;
}
