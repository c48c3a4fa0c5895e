#include <transport/grh.hpp>

#include <bit>
#include <cstdint>
#include <cstring>

#include <netinet/in.h>

namespace softverbs::transport {

std::array<std::byte, grh_bytes> global_route_header(const wire::packet& packet,
                                                     const net::address& source,
                                                     const net::address& destination) {
  std::array<std::uint8_t, grh_bytes> raw{};
  const auto udp_bytes = packet.payload.size() + packet.header.pad_bytes + 8 +
                         wire::header_bytes(packet.header.service, packet.header.op) +
                         wire::icrc_bytes;
  if (source.is_ipv4()) {
    auto* const ip = raw.data() + 20;
    const auto total = udp_bytes + 20;
    ip[0] = 0x45;
    ip[2] = static_cast<std::uint8_t>(total >> 8);
    ip[3] = static_cast<std::uint8_t>(total);
    ip[6] = 0x40;
    ip[8] = 64;
    ip[9] = IPPROTO_UDP;
    std::memcpy(ip + 12, source.raw.data() + 12, 4);
    std::memcpy(ip + 16, destination.raw.data() + 12, 4);
    std::uint32_t sum = 0;
    for (int i = 0; i < 20; i += 2) sum += static_cast<std::uint32_t>(ip[i] << 8 | ip[i + 1]);
    while (sum >> 16 != 0) sum = (sum & 0xffff) + (sum >> 16);
    ip[10] = static_cast<std::uint8_t>(~sum >> 8);
    ip[11] = static_cast<std::uint8_t>(~sum);
  } else {
    raw[0] = 0x60;
    raw[4] = static_cast<std::uint8_t>(udp_bytes >> 8);
    raw[5] = static_cast<std::uint8_t>(udp_bytes);
    raw[6] = IPPROTO_UDP;
    raw[7] = 64;
    std::memcpy(raw.data() + 8, source.raw.data(), 16);
    std::memcpy(raw.data() + 24, destination.raw.data(), 16);
  }
  return std::bit_cast<std::array<std::byte, grh_bytes>>(raw);
}

}  // namespace softverbs::transport
