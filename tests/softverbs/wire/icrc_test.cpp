#include <wire/icrc.hpp>

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <random>
#include <span>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <wire/big_endian.hpp>
#include <wire/packet.hpp>

#include "crc32_reference.hpp"
#include "pcap_file.hpp"

namespace {

using namespace softverbs::wire;
using softverbs::net::address;

iovec part_of(std::span<const std::byte> data) {
  return {.iov_base = const_cast<std::byte*>(data.data()), .iov_len = data.size()};
}

std::uint32_t icrc_of(const flow& flow, std::uint16_t id, std::span<const std::byte> data) {
  const std::array parts{part_of(data)};
  return icrc(flow, id, parts);
}

// The stored sum is little-endian.
std::uint32_t carried_icrc(std::span<const std::byte> datagram) {
  return std::byteswap(load_big<std::uint32_t>(datagram.last(icrc_bytes).data()));
}

void append_icrc(std::vector<std::byte>& datagram, std::uint32_t sum) {
  for (unsigned shift = 0; shift < 32; shift += 8) {
    datagram.push_back(static_cast<std::byte>(sum >> shift));
  }
}

std::vector<std::byte> random_bytes(std::size_t count, std::uint32_t seed) {
  std::mt19937 random(seed);
  std::vector<std::byte> bytes(count);
  std::ranges::generate(bytes, [&random] { return static_cast<std::byte>(random()); });
  return bytes;
}

const flow ipv4_flow{.source = {.raw{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 10, 8, 0, 1}},
                     .destination = {.raw{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 10, 8, 0, 2}},
                     .source_port = 0xc123,
                     .destination_port = roce_udp_port};
const flow ipv6_flow{
    .source = {.raw{0x20, 1, 0xd, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1}},
    .destination = {.raw{0xfe, 0x80, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0xff, 0xfe, 0, 0, 2}},
    .source_port = 0xc123,
    .destination_port = roce_udp_port};

class recorded_icrc : public recorded_traffic {};

TEST_P(recorded_icrc, is_the_one_that_we_compute) {
  for (const recorded_packet& recorded : packets()) {
    const auto datagram = recorded.datagram();
    const auto summed = datagram.first(datagram.size() - icrc_bytes);
    EXPECT_EQ(icrc_of(recorded.flow(), recorded.ipv4_id(), summed), carried_icrc(datagram));
    EXPECT_NE(icrc_of(recorded.flow(), recorded.ipv4_id() ^ 1U, summed), carried_icrc(datagram));
    EXPECT_TRUE(icrc_holds(recorded.flow(), datagram));
  }
}

TEST_P(recorded_icrc, does_not_hold_with_any_bit_flipped) {
  std::mt19937 random(7);
  for (const recorded_packet& recorded : packets()) {
    std::vector<std::byte> datagram(recorded.datagram().begin(), recorded.datagram().end());
    for (int sample = 0; sample < 40; ++sample) {
      const std::size_t at = random() % datagram.size();
      const std::byte bit{static_cast<std::uint8_t>(1U << (random() % 8))};
      datagram[at] ^= bit;
      // BTH byte 4 is the one that a router may change.
      EXPECT_EQ(icrc_holds(recorded.flow(), datagram), at == 4) << "byte " << at;
      datagram[at] ^= bit;
    }
  }
}

TEST_P(recorded_icrc, does_not_hold_for_another_flow) {
  for (const recorded_packet& recorded : packets()) {
    flow other = recorded.flow();
    ++other.source_port;
    EXPECT_FALSE(icrc_holds(other, recorded.datagram()));
    other = recorded.flow();
    other.destination_port ^= 0x100U;
    EXPECT_FALSE(icrc_holds(other, recorded.datagram()));
    other = recorded.flow();
    other.source.raw[15] ^= 4U;
    EXPECT_FALSE(icrc_holds(other, recorded.datagram()));
    other = recorded.flow();
    other.destination.raw[12] ^= 0x80U;
    EXPECT_FALSE(icrc_holds(other, recorded.datagram()));
  }
}

TEST_P(recorded_icrc, may_be_zeros_within_a_host_and_nowhere_else) {
  for (const recorded_packet& recorded : packets()) {
    std::vector<std::byte> datagram(recorded.datagram().begin(), recorded.datagram().end());
    EXPECT_TRUE(intact_packet(recorded.flow(), datagram));
    EXPECT_TRUE(intact_packet(recorded.flow(), datagram, icrc_rule::zero_is_none));
    datagram.back() ^= std::byte{1};
    EXPECT_FALSE(intact_packet(recorded.flow(), datagram));
    EXPECT_FALSE(intact_packet(recorded.flow(), datagram, icrc_rule::zero_is_none));
    std::ranges::fill(std::span(datagram).last(icrc_bytes), std::byte{0});
    EXPECT_FALSE(intact_packet(recorded.flow(), datagram));
    EXPECT_TRUE(intact_packet(recorded.flow(), datagram, icrc_rule::zero_is_none));
  }
}

INSTANTIATE_TEST_SUITE_P(from, recorded_icrc, recorded_files,
                         [](const auto& instance) { return std::string(instance.param); });

TEST(icrc, over_ipv6_is_that_of_the_masked_headers) {
  const auto data = random_bytes(12 + 40, 1);
  // What annex A17 says, byte by byte.
  std::vector<std::byte> masked(8, std::byte{0xff});
  const auto append = [&masked](const auto&... values) {
    (masked.push_back(static_cast<std::byte>(values)), ...);
  };
  const std::size_t udp_length = 8 + data.size() + icrc_bytes;
  append(0x6f, 0xff, 0xff, 0xff, udp_length >> 8, udp_length, 17, 0xff);
  for (const std::uint8_t b : ipv6_flow.source.raw) append(b);
  for (const std::uint8_t b : ipv6_flow.destination.raw) append(b);
  append(0xc1, 0x23, 0x12, 0xb7, udp_length >> 8, udp_length, 0xff, 0xff);
  masked.insert(masked.end(), data.begin(), data.end());
  masked[8 + 48 + 4] = std::byte{0xff};

  const std::uint32_t expected = ~crc32_bit_by_bit(0xffffffff, masked);
  EXPECT_EQ(icrc_of(ipv6_flow, 0, data), expected);
  EXPECT_EQ(icrc_of(ipv6_flow, 0x1234, data), expected) << "IPv6 has no identification";
}

TEST(icrc, does_not_depend_on_how_the_packet_is_divided) {
  const auto data = random_bytes(3000, 2);
  std::mt19937 random(3);
  for (const flow& flow : {ipv4_flow, ipv6_flow}) {
    const std::uint32_t whole = icrc_of(flow, 9, data);
    for (int round = 0; round < 300; ++round) {
      std::vector<iovec> parts;
      for (std::span<const std::byte> rest = data; !rest.empty();) {
        const std::size_t most = round % 2 == 0 ? 8 : 1500;
        const std::size_t piece = std::min<std::size_t>(random() % most, rest.size());
        parts.push_back(piece == 0 ? iovec{} : part_of(rest.first(piece)));
        rest = rest.subspan(piece);
      }
      ASSERT_EQ(icrc(flow, 9, parts), whole);
    }
  }
}

TEST(icrc, ignores_what_routers_may_change) {
  auto data = random_bytes(100, 4);
  const std::uint32_t before = icrc_of(ipv4_flow, 0, data);
  data[4] ^= std::byte{0xc0};
  EXPECT_EQ(icrc_of(ipv4_flow, 0, data), before);
  data[5] ^= std::byte{0x01};
  EXPECT_NE(icrc_of(ipv4_flow, 0, data), before);
}

TEST(icrc_holds, with_any_ipv4_identification) {
  std::vector<std::uint16_t> ids{0, 0xffff};
  for (unsigned bit = 0; bit < 16; ++bit) ids.push_back(static_cast<std::uint16_t>(1U << bit));
  std::mt19937 random(5);
  for (int i = 0; i < 40; ++i) ids.push_back(static_cast<std::uint16_t>(random()));
  for (const std::size_t length :
       {12U, 13U, 16U, 44U, 255U, 256U, 257U, 1036U, 4112U, 9000U, 65000U}) {
    const auto data = random_bytes(length, static_cast<std::uint32_t>(length));
    for (const std::uint16_t id : ids) {
      auto datagram = data;
      append_icrc(datagram, icrc_of(ipv4_flow, id, data));
      ASSERT_TRUE(icrc_holds(ipv4_flow, datagram)) << id << ", " << length << " bytes";
    }
  }
}

TEST(icrc_holds, for_one_in_65536_of_the_wrong_sums_over_ipv4) {
  auto datagram = random_bytes(64 + icrc_bytes, 6);
  std::mt19937 random(7);
  int accepted = 0;
  constexpr int tries = 1 << 19;
  for (int i = 0; i < tries; ++i) {
    const auto sum = static_cast<std::uint32_t>(random());
    std::memcpy(datagram.data() + 64, &sum, sizeof sum);
    if (icrc_holds(ipv4_flow, datagram)) ++accepted;
  }
  EXPECT_LT(accepted, 8 * 4);  // 8 expected
}

TEST(icrc_holds, for_the_right_sum_alone_over_ipv6) {
  auto datagram = random_bytes(200, 8);
  append_icrc(datagram, icrc_of(ipv6_flow, 0, datagram));
  EXPECT_TRUE(icrc_holds(ipv6_flow, datagram));
  for (std::size_t at = 0; at < datagram.size(); ++at) {
    for (unsigned bit = 0; bit < 8; ++bit) {
      datagram[at] ^= static_cast<std::byte>(1U << bit);
      EXPECT_EQ(icrc_holds(ipv6_flow, datagram), at == 4);
      datagram[at] ^= static_cast<std::byte>(1U << bit);
    }
  }
}

TEST(icrc_holds, for_no_datagram_that_is_too_short_or_too_long) {
  const std::vector<std::byte> zeros(70000);
  for (const flow& flow : {ipv4_flow, ipv6_flow}) {
    for (std::size_t length = 0; length < bth_bytes + icrc_bytes; ++length) {
      EXPECT_FALSE(icrc_holds(flow, std::span(zeros).first(length)));
    }
    EXPECT_FALSE(icrc_holds(flow, zeros));
  }
}

}  // namespace
