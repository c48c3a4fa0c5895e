#include <wire/ip_udp.hpp>

#include <cstring>

#include <wire/big_endian.hpp>

namespace softverbs::wire {
namespace {

constexpr std::byte hops{64};
constexpr std::byte udp_protocol{17};

void encode_ipv4(const flow& packet_flow, std::uint16_t id, std::uint16_t total_bytes,
                 std::byte* out) noexcept {
  constexpr std::uint16_t version_and_length = 0x4500;
  constexpr std::uint16_t do_not_fragment = 0x4000;
  store_big(out, static_cast<std::uint16_t>(version_and_length | packet_flow.traffic_class));
  store_big(out + 2, total_bytes);
  store_big(out + 4, id);
  store_big(out + 6, do_not_fragment);
  out[8] = hops;
  out[9] = udp_protocol;
  store_big(out + 10, std::uint16_t{0});
  std::memcpy(out + 12, packet_flow.source.raw.data() + 12, 4);
  std::memcpy(out + 16, packet_flow.destination.raw.data() + 12, 4);
}

void encode_ipv6(const flow& packet_flow, std::uint16_t payload_bytes, std::byte* out) noexcept {
  constexpr std::uint32_t version = 0x6000'0000;
  store_big(out, version | static_cast<std::uint32_t>(packet_flow.traffic_class) << 20);
  store_big(out + 4, payload_bytes);
  out[6] = udp_protocol;
  out[7] = hops;
  std::memcpy(out + 8, packet_flow.source.raw.data(), 16);
  std::memcpy(out + 24, packet_flow.destination.raw.data(), 16);
}

}  // namespace

std::size_t encode_ip_udp(const flow& packet_flow, std::uint16_t ipv4_id,
                          std::size_t datagram_bytes, std::byte* out) noexcept {
  const std::size_t udp_length = udp_bytes + datagram_bytes;
  std::byte* udp = out;
  if (packet_flow.source.is_ipv4()) {
    encode_ipv4(packet_flow, ipv4_id, static_cast<std::uint16_t>(ipv4_bytes + udp_length), out);
    udp += ipv4_bytes;
  } else {
    encode_ipv6(packet_flow, static_cast<std::uint16_t>(udp_length), out);
    udp += ipv6_bytes;
  }
  store_big(udp, packet_flow.source_port);
  store_big(udp + 2, packet_flow.destination_port);
  store_big(udp + 4, static_cast<std::uint16_t>(udp_length));
  store_big(udp + 6, std::uint16_t{0});
  return static_cast<std::size_t>(udp - out) + udp_bytes;
}

}  // namespace softverbs::wire
