#include <wire/pcap.hpp>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>
#include <wire/icrc.hpp>
#include <wire/packet.hpp>

#include "pcap_file.hpp"

namespace {

using namespace softverbs::wire;

// A file name that is free, and is freed again.
class pcap : public testing::Test {
 protected:
  pcap() { std::filesystem::remove(path_); }
  ~pcap() override { std::filesystem::remove(path_); }

  const std::string path_ =
      testing::TempDir() + "softverbs_pcap_test." + std::to_string(getpid()) + ".pcap";
};

flow ipv4_flow() {
  return {.source = {.raw{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 10, 8, 0, 1}},
          .destination = {.raw{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 10, 8, 0, 2}},
          .source_port = 49153,
          .destination_port = roce_udp_port};
}

flow ipv6_flow() {
  return {.source = {.raw{0x20, 1, 0xd, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1}},
          .destination = {.raw{0x20, 1, 0xd, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2}},
          .source_port = 49153,
          .destination_port = roce_udp_port};
}

bool same(const flow& a, const flow& b) {
  return a.source == b.source && a.destination == b.destination && a.source_port == b.source_port &&
         a.destination_port == b.destination_port;
}

// A SEND of `text`, in three parts as an engine would have it.
void write_send(pcap_writer& writer, const flow& flow, std::string text) {
  std::array<std::byte, most_header_bytes> header{};
  std::array<std::byte, 3> pad{};
  const auto pad_bytes = static_cast<std::uint8_t>(-text.size() % 4);
  const std::size_t length = encode({.pad_bytes = pad_bytes, .psn = 7}, header.data());
  const std::array parts{iovec{.iov_base = header.data(), .iov_len = length},
                         iovec{.iov_base = text.data(), .iov_len = text.size()},
                         iovec{.iov_base = pad.data(), .iov_len = pad_bytes}};
  writer.write(flow, parts);
}

std::string text_of(const recorded_packet& recorded) {
  const auto decoded = decode(recorded.datagram());
  if (!decoded) return "undecodable";
  std::string text;
  for (const std::byte b : decoded->payload) text += std::to_integer<char>(b);
  return text;
}

// The ones' complement sum, folded: 0xffff for a range that contains its right checksum.
std::uint32_t ones_sum(std::span<const std::byte> data, std::uint32_t sum = 0) {
  for (std::size_t i = 0; i < data.size(); ++i) {
    sum += std::to_integer<std::uint32_t>(data[i]) << (i % 2 == 0 ? 8 : 0);
  }
  while (sum > 0xffff) sum = (sum >> 16) + (sum & 0xffffU);
  return sum;
}

TEST_F(pcap, holds_ipv4_packets_as_on_the_wire) {
  {
    pcap_writer writer(path_);
    write_send(writer, ipv4_flow(), "seven b");
  }
  const auto packets = read_pcap(path_);
  ASSERT_EQ(packets.size(), 1U);
  const recorded_packet& packet = packets[0];
  EXPECT_EQ(packet.udp_at, 20U);
  EXPECT_TRUE(same(packet.flow(), ipv4_flow()));
  EXPECT_EQ(text_of(packet), "seven b");
  EXPECT_TRUE(icrc_holds(packet.flow(), packet.datagram()));

  const std::span ip(packet.ip);
  EXPECT_EQ(ones_sum(ip.first(20)), 0xffffU);
  EXPECT_EQ(load_big<std::uint16_t>(&ip[2]), ip.size());
  EXPECT_EQ(packet.ipv4_id(), 0);
  EXPECT_EQ(load_big<std::uint16_t>(&ip[6]), 0x4000);  // do not fragment
  EXPECT_EQ(ip[8], std::byte{64});
  EXPECT_EQ(load_big<std::uint16_t>(&ip[24]), ip.size() - 20);
  EXPECT_EQ(load_big<std::uint16_t>(&ip[26]), 0);  // no UDP checksum
}

TEST_F(pcap, holds_ipv6_packets_with_a_udp_checksum) {
  {
    pcap_writer writer(path_);
    write_send(writer, ipv6_flow(), "an odd length, so that pieces straddle words");
    write_send(writer, ipv6_flow(), "x");
  }
  const auto packets = read_pcap(path_);
  ASSERT_EQ(packets.size(), 2U);
  for (const recorded_packet& packet : packets) {
    EXPECT_EQ(packet.udp_at, 40U);
    EXPECT_TRUE(same(packet.flow(), ipv6_flow()));
    EXPECT_TRUE(icrc_holds(packet.flow(), packet.datagram()));
    const std::span ip(packet.ip);
    const auto udp_length = static_cast<std::uint32_t>(ip.size() - 40);
    EXPECT_EQ(load_big<std::uint16_t>(&ip[4]), udp_length);
    EXPECT_EQ(load_big<std::uint16_t>(&ip[44]), udp_length);
    EXPECT_EQ(ip[7], std::byte{64});
    EXPECT_EQ(ones_sum(ip.subspan(8), udp_length + 17), 0xffffU);
    EXPECT_NE(load_big<std::uint16_t>(&ip[46]), 0);
  }
}

TEST_F(pcap, is_appended_to) {
  for (const char* text : {"first", "second"}) {
    pcap_writer writer(path_);
    write_send(writer, ipv4_flow(), text);
  }
  std::vector<std::string> texts;
  for (const auto& packet : read_pcap(path_)) texts.push_back(text_of(packet));
  EXPECT_THAT(texts, testing::ElementsAre("first", "second"));
}

TEST_F(pcap, takes_whole_packets_from_many_threads_and_writers) {
  constexpr std::size_t writers = 2;
  constexpr std::size_t threads_each = 2;
  constexpr std::size_t packets_each = 200;
  {
    std::vector<std::unique_ptr<pcap_writer>> files;
    std::vector<std::jthread> threads;
    for (std::size_t w = 0; w < writers; ++w) {
      files.push_back(std::make_unique<pcap_writer>(path_));
      for (std::size_t t = 0; t < threads_each; ++t) {
        threads.emplace_back(
            [&writer = *files.back(), name = std::to_string(w) + std::to_string(t)] {
              for (std::size_t i = 0; i < packets_each; ++i) {
                write_send(writer, ipv4_flow(), name + std::string(i, '.'));
              }
            });
      }
    }
    threads.clear();
  }
  const auto packets = read_pcap(path_);
  EXPECT_EQ(packets.size(), writers * threads_each * packets_each);
  EXPECT_TRUE(std::ranges::all_of(
      packets, [](const auto& packet) { return icrc_holds(packet.flow(), packet.datagram()); }));
}

TEST_F(pcap, that_cannot_be_opened_takes_packets_in_silence) {
  pcap_writer writer(path_ + "/not/a/directory");
  write_send(writer, ipv4_flow(), "lost");
  EXPECT_FALSE(std::filesystem::exists(path_));
}

}  // namespace
