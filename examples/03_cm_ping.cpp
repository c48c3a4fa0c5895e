// 03: the pings of 02, connected by the connection manager: no second network, no device to name.
//
//   server$ 03_cm_ping 10.0.0.7:7471
//   client$ 03_cm_ping 10.0.0.7:7471 Alice
//
// An address is all that the two sides need; it also says which device to use. It works on iWARP,
// too, which knows no other way. The client introduces itself in its request, and the server answers
// with its acceptance, before the first message. Each side has a receive waiting when the connection
// comes up: whoever is first may send at once.

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdlib>
#include <exception>
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

work_completion next_completion(const completion_queue& cq) {
  std::array<work_completion, 1> one;
  for (;;) {
    cq.req_notify().value();  // before polling: what completes in between raises an event
    for (const work_completion& completion : cq.poll(one).value()) {
      if (!completion) throw rdmaxx::exception(completion.error());
      return completion;
    }
    if (!cq.channel().wait(patience).value()) throw std::runtime_error("the peer is silent");
  }
}

std::string text_of(std::span<const std::byte> bytes) {
  const auto* text = reinterpret_cast<const char*>(bytes.data());
  return {text, std::find(text, text + bytes.size(), '\0')};  // private data has zeros behind it
}

void expect(const queue_pair& qp, const owned_region& incoming, std::string_view wanted) {
  const auto text = text_of(incoming.bytes().first(next_completion(qp.recv_cq()).byte_len()));
  if (text != wanted) throw std::runtime_error(fmt::format("'{}' arrived", text));
  fmt::print("received: {}\n", text);
  qp.post(recv_wr{.into = {{incoming.scatter()}}}).value();
}

void send(const queue_pair& qp, const owned_region& outgoing, std::string_view text) {
  std::ranges::copy(std::as_bytes(std::span(text)), outgoing.bytes().begin());
  qp.post(send_wr{.from = {{outgoing.gather(outgoing.bytes().first(text.size()))}}}).value();
  (void)next_completion(qp.send_cq());
}

/// Gives the identifier a queue pair with a receive in it, connects, and plays.
template <class Connect>
void play(const cm_id& id, bool client, Connect connect) {
  id.create_qp().value();
  const auto incoming = id.pd().allocate_local({.bytes = 64}).value();
  const auto outgoing = id.pd().allocate_local({.bytes = 64}).value();
  id.qp().post(recv_wr{.into = {{incoming.scatter()}}}).value();
  cm::connection peer = connect();
  fmt::print("connected: {} {}\n", peer, text_of(peer.peer_data()));
  for (int round = 1; round <= 5; ++round) {
    const auto ping = fmt::format("ping {}", round);
    const auto pong = fmt::format("pong {}", round);
    if (client) send(peer.qp(), outgoing, ping);
    expect(peer.qp(), incoming, client ? pong : ping);
    if (!client) send(peer.qp(), outgoing, pong);
  }
  if (client) peer.disconnect().value();
  if (!peer.wait_disconnected(patience).value()) throw std::runtime_error("the peer stays");
}

void serve(const char* address) {
  const auto listener = cm::listen(address).value();
  fmt::print("listening on {}\n", listener.local_address());
  std::fflush(stdout);  // before somebody has to know it
  auto request = listener.get_request(patience).value();
  if (!request) throw std::runtime_error("nobody came");
  const std::string welcome = "welcome, " + text_of(request->peer_data());
  play(request->id(), false, [&] {
    return std::move(*request)
        .accept({.parameters = {.private_data = std::as_bytes(std::span(welcome))}})
        .value();
  });
}

void visit(const char* address, std::string_view name) {
  auto id = cm::resolve(address).value();
  play(id, true, [&] {
    return cm::connect(std::move(id), {.private_data = std::as_bytes(std::span(name))}).value();
  });
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2 && argc != 3) {
    fmt::print(stderr,
               "usage: 03_cm_ping ADDRESS:PORT        (server; port 0 takes any free one)\n"
               "       03_cm_ping ADDRESS:PORT NAME   (client)\n");
    return 2;
  }
  try {
    if (argc == 2) serve(argv[1]);
    if (argc == 3) visit(argv[1], argv[2]);
    return EXIT_SUCCESS;
  } catch (const std::exception& failure) {
    fmt::print(stderr, "03_cm_ping: {}\n", failure.what());
    return EXIT_FAILURE;
  }
}
