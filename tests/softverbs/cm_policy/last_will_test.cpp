#include <cm/last_will.hpp>

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

will_letter letter_of(std::uint16_t port,
                      const std::function<void(wire::cm_message&)>& change = {}) {
  const auto number = std::uint32_t{port} << 16U | 7U;
  wire::cm_message message{.kind = wire::cm_kind::disconnect_request, .local_id = number};
  if (change) change(message);
  return {.number = number,
          .is_valid = 1,
          .will = {.own = own, .peer = other_host(), .message = wire::encode(message)}};
}

bool is_taken(const will_letter& letter) {
  return decode_will(std::as_bytes(std::span(&letter, 1))).has_value();
}

TEST(last_will, says_the_end_of_an_own_connection_to_another_host) {
  EXPECT_TRUE(is_taken(letter_of(9)));
  EXPECT_FALSE(is_taken(letter_of(9, [](auto& m) { m.kind = wire::cm_kind::request; })));
  EXPECT_FALSE(is_taken(letter_of(9, [](auto& m) { m.local_id ^= 0x10000U; })));
  auto letter = letter_of(9);
  letter.is_valid = 2;
  EXPECT_FALSE(is_taken(letter));
  letter = letter_of(9);
  letter.will.peer = own;
  EXPECT_FALSE(is_taken(letter));
  letter = letter_of(9);
  letter.will.own = net::address::any(true);
  EXPECT_FALSE(is_taken(letter));
  EXPECT_FALSE(decode_will({}));
}

TEST(last_will, is_kept_for_ports_of_the_senders_user_alone) {
  const auto socket = net::udp_socket::bind(own, 0, 1);
  ASSERT_NE(socket, nullptr);
  for (const uid_t stranger : {0U, 1U}) {
    std::array<int, 2> ends{};
    ASSERT_EQ(::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends.data()), 0);
    kept_wills kept;
    kept.accept(ends[1], ::geteuid() + stranger);
    const auto letter = letter_of(socket->port());
    ASSERT_EQ(::send(ends[0], &letter, sizeof letter, 0), static_cast<ssize_t>(sizeof letter));
    ASSERT_EQ(::send(ends[0], &letter, sizeof letter - 1, 0),
              static_cast<ssize_t>(sizeof letter - 1));
    EXPECT_TRUE(kept.receive(ends[1]));
    ::close(ends[0]);
    EXPECT_FALSE(kept.receive(ends[1]));
    EXPECT_EQ(kept.open(ends[1]).size(), stranger == 0 ? 1U : 0U);
    ::close(ends[1]);
  }
}

TEST(last_will, there_is_a_bound_to_what_is_kept) {
  const auto socket = net::udp_socket::bind(own, 0, 1);
  ASSERT_NE(socket, nullptr);
  std::array<int, 2> ends{};
  ASSERT_EQ(::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends.data()), 0);
  kept_wills kept;
  kept.accept(ends[1], ::geteuid());
  for (std::uint32_t i = 0; i < kept_wills::most_of_one + 100; ++i) {
    const auto number = std::uint32_t{socket->port()} << 16U | i;
    auto letter = letter_of(socket->port(), [&](auto& m) { m.local_id = number; });
    letter.number = number;
    ASSERT_EQ(::send(ends[0], &letter, sizeof letter, 0), static_cast<ssize_t>(sizeof letter));
    ASSERT_TRUE(kept.receive(ends[1]));
  }
  EXPECT_EQ(kept.open(ends[1]).size(), kept_wills::most_of_one);
  for (const int fd : ends) ::close(fd);
}

}  // namespace
}  // namespace softverbs::cm
