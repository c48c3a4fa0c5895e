#include <cm/orphan_disconnect.hpp>

#include <array>
#include <functional>
#include <span>

#include <gtest/gtest.h>
#include <net/udp_socket.hpp>
#include <sys/socket.h>
#include <unistd.h>

namespace softverbs::cm {
namespace {

const auto own = net::address::loopback(true);

net::address other_host() {
  auto there = own;
  there.raw[12] = 10;
  return there;
}

orphan_disconnect_update update_of(std::uint16_t port,
                                   const std::function<void(wire::cm_message&)>& change = {}) {
  const auto comm_id = std::uint32_t{port} << 16U | 7U;
  wire::cm_message message{.kind = wire::cm_kind::dreq, .local_id = comm_id};
  if (change) change(message);
  return {.comm_id = comm_id,
          .is_valid = 1,
          .disconnect = {.own = own, .peer = other_host(), .dreq = wire::encode(message)}};
}

bool is_accepted(const orphan_disconnect_update& update) {
  return decode_orphan_disconnect(std::as_bytes(std::span(&update, 1))).has_value();
}

TEST(orphan_disconnect, ends_a_connection_of_its_sender_to_another_host) {
  EXPECT_TRUE(is_accepted(update_of(9)));
  EXPECT_FALSE(is_accepted(update_of(9, [](auto& m) { m.kind = wire::cm_kind::req; })));
  EXPECT_FALSE(is_accepted(update_of(9, [](auto& m) { m.local_id ^= 0x10000U; })));
  auto update = update_of(9);
  update.is_valid = 2;
  EXPECT_FALSE(is_accepted(update));
  update = update_of(9);
  update.disconnect.peer = own;
  EXPECT_FALSE(is_accepted(update));
  update = update_of(9);
  update.disconnect.own = net::address::any(true);
  EXPECT_FALSE(is_accepted(update));
  EXPECT_FALSE(decode_orphan_disconnect({}));
}

TEST(orphan_disconnect, is_held_only_for_ports_of_the_senders_user) {
  const auto socket = net::udp_socket::bind(own, 0, 1);
  ASSERT_NE(socket, nullptr);
  for (const uid_t stranger : {0U, 1U}) {
    std::array<int, 2> ends{};
    ASSERT_EQ(::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends.data()), 0);
    held_disconnects held;
    held.accept(ends[1], ::geteuid() + stranger);
    const auto update = update_of(socket->port());
    ASSERT_EQ(::send(ends[0], &update, sizeof update, 0), static_cast<ssize_t>(sizeof update));
    ASSERT_EQ(::send(ends[0], &update, sizeof update - 1, 0),
              static_cast<ssize_t>(sizeof update - 1));
    EXPECT_TRUE(held.receive(ends[1]));
    ::close(ends[0]);
    EXPECT_FALSE(held.receive(ends[1]));
    EXPECT_EQ(held.release(ends[1]).size(), stranger == 0 ? 1U : 0U);
    ::close(ends[1]);
  }
}

TEST(orphan_disconnect, the_number_held_is_bounded) {
  const auto socket = net::udp_socket::bind(own, 0, 1);
  ASSERT_NE(socket, nullptr);
  std::array<int, 2> ends{};
  ASSERT_EQ(::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends.data()), 0);
  held_disconnects held;
  held.accept(ends[1], ::geteuid());
  for (std::uint32_t i = 0; i < held_disconnects::most_of_one + 100; ++i) {
    const auto comm_id = std::uint32_t{socket->port()} << 16U | i;
    auto update = update_of(socket->port(), [&](auto& m) { m.local_id = comm_id; });
    update.comm_id = comm_id;
    ASSERT_EQ(::send(ends[0], &update, sizeof update, 0), static_cast<ssize_t>(sizeof update));
    ASSERT_TRUE(held.receive(ends[1]));
  }
  EXPECT_EQ(held.release(ends[1]).size(), held_disconnects::most_of_one);
  for (const int fd : ends) ::close(fd);
}

}  // namespace
}  // namespace softverbs::cm
