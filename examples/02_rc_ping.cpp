// 02: two processes exchange messages over a reliable connection, and read each other's memory.
//
//   server$ 02_rc_ping rxe0 7471
//   client$ 02_rc_ping rxe0 7471 server.example.org
//
// RDMA cannot introduce two queue pairs to each other: each side must learn the other's endpoint by
// other means, here over TCP. Then both connect, post a receive, and tell the other that they are
// ready, because a message needs a receive that has already been posted. After the pings each side
// fetches a note from the other's memory with an RDMA READ, which the other's program does not
// notice.

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdlib>
#include <exception>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>

#include <fmt/format.h>

#include <rdmaxx/rdmaxx.hpp>

#include "tcp_line.hpp"

using namespace rdmaxx;

namespace {

constexpr std::chrono::seconds patience(10);
constexpr std::size_t message_bytes = 64;

/// What each side must know about the other.
struct introduction {
  std::array<std::byte, qp_endpoint::serialized_size> endpoint{};
  std::array<std::byte, remote_address::serialized_size> note{};
};

/// Sleeps until the next completion arrives; throws if it failed, or if none arrives in time.
work_completion next_completion(const completion_queue& cq) {
  const auto completion = wait_completion(cq, patience).value();
  if (!completion) throw rdmaxx::exception(completion.error());
  return completion;
}

void write_text(std::span<std::byte> place, std::string_view text) {
  std::ranges::copy(std::as_bytes(std::span(text)), place.begin());
}

std::string read_text(std::span<const std::byte> place) {
  const auto* text = reinterpret_cast<const char*>(place.data());
  return {text, std::find(text, text + place.size(), '\0')};
}

void play(const context& ctx, tcp_line& line, bool client) {
  const auto new_cq = [&] {
    return ctx.create_cq({.capacity = 8, .channel = ctx.create_completion_channel().value()})
        .value();
  };
  const auto send_cq = new_cq();
  const auto recv_cq = new_cq();
  const auto pd = ctx.alloc_pd().value();
  const auto qp =
      pd.create_qp({.type = qp_type::rc, .send_cq = send_cq, .recv_cq = recv_cq}).value();

  // Peers can read the note and nothing else; it does not change once they know of it.
  const auto note =
      pd.allocate_shared(unsafe, {.bytes = message_bytes}, access::remote_read).value();
  const auto outgoing = pd.allocate_local({.bytes = message_bytes}).value();
  const auto incoming = pd.allocate_local({.bytes = message_bytes}).value();
  const auto fetched = pd.allocate_local({.bytes = message_bytes}).value();
  write_text(note.bytes(), client ? "a note from the client" : "a note from the server");

  const auto peer = line.exchange(
      introduction{.endpoint = qp.endpoint().value().to_bytes(), .note = note.remote().to_bytes()});
  qp.connect(qp_endpoint::from_bytes(peer.endpoint).value()).value();
  fmt::print("connected: {}\n", qp);

  const auto receive = [&] { qp.post(recv_wr{.into = incoming.scatter()}).value(); };
  const auto send = [&](std::string_view text) {
    write_text(outgoing.bytes(), text);
    qp.post(send_wr{.from = outgoing.gather(outgoing.bytes().first(text.size()))}).value();
    (void)next_completion(send_cq);
  };
  const auto expect = [&](std::string_view text) {
    const auto arrived = read_text(incoming.bytes().first(next_completion(recv_cq).byte_len()));
    if (arrived != text)
      throw std::runtime_error(fmt::format("'{}' arrived instead of '{}'", arrived, text));
    fmt::print("received: {}\n", arrived);
    receive();  // before the answer that asks for the next message
  };

  receive();
  line.exchange('r');
  for (int round = 1; round <= 5; ++round) {
    const auto ping = fmt::format("ping {}", round);
    const auto pong = fmt::format("pong {}", round);
    if (client) send(ping);
    expect(client ? pong : ping);
    if (!client) send(pong);
  }

  const auto there = remote_address::from_bytes(peer.note).value();
  qp.post(read_wr{.from = there, .into = fetched.scatter()}).value();
  (void)next_completion(send_cq);
  fmt::print("read: {}\n", read_text(fetched.bytes()));
  line.exchange('d');  // the note must stay until the other side has read it
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3 && argc != 4) {
    fmt::print(stderr,
               "usage: 02_rc_ping DEVICE PORT        (server; port 0 takes any free one)\n"
               "       02_rc_ping DEVICE PORT HOST   (client)\n");
    return 2;
  }
  try {
    const auto ctx = open_device(argv[1]).value();
    const bool client = argc == 4;
    auto line = client ? tcp_line::connect_to(argv[3], argv[2], patience)
                       : tcp_line::accept_one(argv[2], patience);
    play(ctx, line, client);
    return EXIT_SUCCESS;
  } catch (const std::exception& failure) {
    fmt::print(stderr, "02_rc_ping: {}\n", failure.what());
    return EXIT_FAILURE;
  }
}
