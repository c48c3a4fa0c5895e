#pragma once

// Reads the packets of a pcap file: what the tests need of it, with a failed assertion for the
// rest.

#include <cstdint>
#include <cstring>
#include <fstream>
#include <iterator>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <wire/big_endian.hpp>
#include <wire/icrc.hpp>

#include "recordings.hpp"

/// An IP packet with UDP in it, as it was recorded.
struct recorded_packet {
  std::vector<std::byte> ip;  ///< from the IP header on
  std::size_t udp_at = 0;     ///< where the UDP header begins

  [[nodiscard]] std::span<const std::byte> datagram() const {
    return std::span(ip).subspan(udp_at + 8);
  }
  [[nodiscard]] std::uint16_t ipv4_id() const { return field(4); }
  [[nodiscard]] softverbs::wire::flow flow() const {
    const bool ipv4 = udp_at == 20;
    return {.source = address_at(ipv4 ? 12 : 8),
            .destination = address_at(ipv4 ? 16 : 24),
            .source_port = field(udp_at),
            .destination_port = field(udp_at + 2)};
  }

 private:
  [[nodiscard]] std::uint16_t field(std::size_t at) const {
    return softverbs::wire::load_big<std::uint16_t>(ip.data() + at);
  }
  [[nodiscard]] softverbs::net::address address_at(std::size_t at) const {
    softverbs::net::address address;
    if (udp_at == 20) {
      address.raw[10] = address.raw[11] = 0xff;
      std::memcpy(address.raw.data() + 12, ip.data() + at, 4);
    } else {
      std::memcpy(address.raw.data(), ip.data() + at, 16);
    }
    return address;
  }
};

/// Throws if the file is not a little-endian pcap of whole packets, Ethernet or raw IP, with UDP.
inline std::vector<recorded_packet> read_pcap(const std::string& path) {
  constexpr std::size_t file_header_bytes = 24;
  constexpr std::size_t record_header_bytes = 16;
  std::ifstream file(path, std::ios::binary);
  const std::string content{std::istreambuf_iterator<char>(file), {}};
  const auto word = [&content, &path](std::size_t at) {
    std::uint32_t value = 0;
    if (at + sizeof value > content.size()) throw std::runtime_error(path + " ends too early");
    std::memcpy(&value, content.data() + at, sizeof value);
    return value;
  };

  const std::uint32_t magic = word(0);
  if (magic != 0xa1b2c3d4 && magic != 0xa1b23c4d) throw std::runtime_error(path + ": no pcap");
  const std::uint32_t link_type = word(20);
  if (link_type != 1 && link_type != 101) throw std::runtime_error(path + ": link type");
  const std::size_t ethernet_bytes = link_type == 1 ? 14 : 0;

  std::vector<recorded_packet> packets;
  for (std::size_t at = file_header_bytes; at < content.size();) {
    const std::size_t bytes = word(at + 8);
    if (bytes != word(at + 12)) throw std::runtime_error(path + ": a packet is cut short");
    const auto record = std::as_bytes(std::span(content)).subspan(at + record_header_bytes);
    if (bytes > record.size()) throw std::runtime_error(path + " ends too early");
    const auto ip = record.subspan(ethernet_bytes, bytes - ethernet_bytes);
    const bool ipv4 = ip[0] == std::byte{0x45};
    if (ip[ipv4 ? 9 : 6] != std::byte{17}) throw std::runtime_error(path + ": not UDP");
    packets.push_back({.ip = {ip.begin(), ip.end()}, .udp_at = ipv4 ? 20U : 40U});
    at += record_header_bytes + bytes;
  }
  return packets;
}

/// For suites over each of the files in tests/data/roce.
class recorded_traffic : public testing::TestWithParam<const char*> {
 protected:
  static std::vector<recorded_packet> packets() { return read_pcap(recording(GetParam())); }
};

inline const auto recorded_files =
    testing::Values("rc_uc_operations", "rc_loss", "ud_pingpong", "multicast", "cm_rping",
                    "cm_ucmatose", "cm_refused", "cm_ud_sidr");
