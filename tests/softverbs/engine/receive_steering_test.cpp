#include <engine/receive_steering.hpp>

#include <array>
#include <cerrno>
#include <cstring>
#include <memory>
#include <set>
#include <vector>

#include <engine/socket_pool.hpp>
#include <gtest/gtest.h>
#include <net/address.hpp>
#include <net/udp_socket.hpp>
#include <wire/cm_message.hpp>
#include <wire/packet.hpp>

namespace softverbs::engine {
namespace {

constexpr unsigned loopback_index = 1;

/// 127.0.0.1 or ::1.
net::address loopback(bool ipv4) {
  net::address made;
  made.raw.back() = 1;
  if (ipv4) {
    made.raw[10] = made.raw[11] = 0xff;
    made.raw[12] = 127;
  }
  return made;
}

TEST(receive_steering, gives_each_port_of_a_process_a_slot_of_its_own) {
  std::set<unsigned> slots;
  for (unsigned port = receive_steering::lowest_port; port < 0xffff; ++port) {
    const auto slot = receive_steering::slot_of(static_cast<std::uint16_t>(port));
    ASSERT_NE(slot, receive_steering::common_slot) << port;
    ASSERT_LT(slot, host_protocol::port_slots) << port;
    slots.insert(slot);
  }
  EXPECT_EQ(slots.size(), host_protocol::port_slots - 1);
}

TEST(receive_steering, leaves_to_everybody_what_is_for_no_process) {
  EXPECT_EQ(receive_steering::slot_of(wire::management_qpn >> 8), receive_steering::common_slot);
  EXPECT_EQ(receive_steering::slot_of(receive_steering::lowest_port - 1),
            receive_steering::common_slot);
  EXPECT_EQ(receive_steering::slot_of(0xffff), receive_steering::common_slot);  // groups
}

/// The sockets of a port, all in one process.
class steered_port : public testing::TestWithParam<bool> {
 protected:
  void SetUp() override {
    auto first = net::udp_socket::bind(loopback(GetParam()), 0, loopback_index);
    if (first == nullptr && !GetParam()) GTEST_SKIP() << "this host has no IPv6 loopback";
    ASSERT_NE(first, nullptr) << std::strerror(errno);
    pool_ = socket_pool::make(*first);
    ASSERT_TRUE(pool_) << std::strerror(errno);
    to_bytes_ = first->own_address().to_sockaddr(first->port(), loopback_index, to_);
    sockets_.push_back(std::move(first));
    for (unsigned slot = 1; slot < host_protocol::port_slots; ++slot) {
      sockets_.push_back(pool_->socket(slot));
      ASSERT_NE(sockets_.back(), nullptr) << slot << ": " << std::strerror(errno);
    }
    sender_ = net::udp_socket::bind(loopback(GetParam()), 0, loopback_index);
    ASSERT_NE(sender_, nullptr);
  }

  void send(std::span<const std::byte> packet) const {
    const iovec whole{.iov_base = const_cast<std::byte*>(packet.data()), .iov_len = packet.size()};
    ASSERT_EQ(sender_->send(to_, to_bytes_, {&whole, 1}, 0), 0);
  }

  void send_to_queue_pair(std::uint32_t qpn) const {
    std::array<std::byte, wire::most_header_bytes> packet{};
    const auto bytes = wire::encode({.service = wire::transport::rc,
                                     .op = wire::operation::acknowledge,
                                     .destination_qpn = qpn},
                                    packet.data());
    send(std::span(packet).first(bytes));
  }

  /// Where packets are; all of them are taken out.
  std::vector<unsigned> slots_with_packets() {
    std::vector<unsigned> found;
    for (unsigned slot = 0; slot < sockets_.size(); ++slot) {
      for (auto trains = buffers_.receive(*sockets_[slot]); !trains.empty();
           trains = buffers_.receive(*sockets_[slot])) {
        found.insert(found.end(), trains.size(), slot);
      }
    }
    return found;
  }

  std::optional<socket_pool> pool_;
  std::vector<std::unique_ptr<net::udp_socket>> sockets_;
  std::unique_ptr<net::udp_socket> sender_;
  sockaddr_storage to_{};
  socklen_t to_bytes_ = 0;
  net::receive_buffers buffers_;
};

TEST_P(steered_port, gets_packets_in_the_slot_of_the_port_in_their_qpn) {
  for (std::uint32_t port = receive_steering::lowest_port; port < 0xffff; port += 61) {
    send_to_queue_pair(port << 8U | 0xab);
    ASSERT_EQ(slots_with_packets(),
              std::vector{receive_steering::slot_of(static_cast<std::uint16_t>(port))})
        << port;
  }
}

TEST_P(steered_port, gets_in_the_common_slot_what_is_for_no_process) {
  for (const std::uint32_t qpn :
       {0U, wire::management_qpn, receive_steering::lowest_port * 256U - 1U, 0xff'ffffU}) {
    send_to_queue_pair(qpn);
    EXPECT_EQ(slots_with_packets(), std::vector{receive_steering::common_slot}) << qpn;
  }
  const std::vector<std::byte> ones(7, std::byte{0x77});
  for (const std::size_t bytes : {0U, 1U, 6U}) {
    send(std::span(ones).first(bytes));
    EXPECT_EQ(slots_with_packets(), std::vector{receive_steering::common_slot}) << bytes;
  }
}

TEST_P(steered_port, loses_packets_of_a_slot_that_nobody_reads_instead_of_keeping_them) {
  constexpr std::uint16_t port = 40'000;
  for (int i = 0; i < 1000; ++i) send_to_queue_pair(std::uint32_t{port} << 8U);
  const auto found = slots_with_packets();
  EXPECT_GE(found.size(), 1U);
  EXPECT_LT(found.size(), 10U);
}

INSTANTIATE_TEST_SUITE_P(ip, steered_port, testing::Values(true, false),
                         [](const auto& chosen) { return chosen.param ? "v4" : "v6"; });

}  // namespace
}  // namespace softverbs::engine
