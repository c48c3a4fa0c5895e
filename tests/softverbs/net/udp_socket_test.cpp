#include <net/udp_socket.hpp>

#include <array>
#include <cstring>
#include <string>

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>

namespace softverbs::net {
namespace {

constexpr unsigned loopback_index = 1;
constexpr std::uint8_t wanted_class = 0xb8;  // expedited forwarding

address loopback(bool ipv4) {
  address made;
  if (ipv4) {
    sockaddr_in name{};
    name.sin_family = AF_INET;
    name.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    made = address::from_sockaddr(reinterpret_cast<const sockaddr*>(&name));
  } else {
    made.raw.back() = 1;
  }
  return made;
}

/// The type of service or traffic class of the next packet; -1 if it says nothing.
int class_of_next(const udp_socket& socket, bool ipv4) {
  std::array<std::byte, 4096> bytes{};
  iovec part{.iov_base = bytes.data(), .iov_len = bytes.size()};
  alignas(cmsghdr) std::array<std::byte, 256> control{};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = control.data();
  message.msg_controllen = control.size();
  if (::recvmsg(socket.fd(), &message, 0) < 0) return -1;
  for (auto* each = CMSG_FIRSTHDR(&message); each != nullptr; each = CMSG_NXTHDR(&message, each)) {
    if (ipv4 && each->cmsg_level == IPPROTO_IP && each->cmsg_type == IP_TOS)
      return std::to_integer<int>(*reinterpret_cast<const std::byte*>(CMSG_DATA(each)));
    if (!ipv4 && each->cmsg_level == IPPROTO_IPV6 && each->cmsg_type == IPV6_TCLASS) {
      int value = 0;
      std::memcpy(&value, CMSG_DATA(each), sizeof value);
      return value;
    }
  }
  return -1;
}

TEST(udp_socket, sends_with_the_traffic_class_that_is_asked_for) {
  for (const bool ipv4 : {true, false}) {
    const auto from = udp_socket::bind(loopback(ipv4), 0, loopback_index);
    const auto to = udp_socket::bind(loopback(ipv4), 0, loopback_index);
    if (from == nullptr || to == nullptr) {
      ASSERT_FALSE(ipv4) << std::strerror(errno);
      GTEST_SKIP() << "this host has no IPv6 loopback";
    }
    const int on = 1;
    ASSERT_EQ(::setsockopt(to->fd(), ipv4 ? IPPROTO_IP : IPPROTO_IPV6,
                           ipv4 ? IP_RECVTOS : IPV6_RECVTCLASS, &on, sizeof on),
              0);
    sockaddr_storage name{};
    const auto name_bytes = loopback(ipv4).to_sockaddr(to->port(), loopback_index, name);
    std::array<std::byte, 64> bytes{};
    const iovec part{.iov_base = bytes.data(), .iov_len = bytes.size()};
    EXPECT_EQ(from->send(name, name_bytes, {&part, 1}, 0, wanted_class), 0);
    EXPECT_EQ(class_of_next(*to, ipv4), wanted_class);
    EXPECT_EQ(from->send(name, name_bytes, {&part, 1}, 32, wanted_class), 0) << "two segments";
    EXPECT_EQ(class_of_next(*to, ipv4), wanted_class);
    EXPECT_EQ(from->send(name, name_bytes, {&part, 1}, 0), 0);
    // Two segments came as one or as two packets, depending on the kernel.
    int last = class_of_next(*to, ipv4);
    if (last == wanted_class) last = class_of_next(*to, ipv4);
    EXPECT_EQ(last, 0);
  }
}

}  // namespace
}  // namespace softverbs::net
