// The IP and UDP headers in front of a packet, as a socket sends them and a capture shows them.
#pragma once

#include <cstddef>
#include <cstdint>

#include <wire/icrc.hpp>

namespace softverbs::wire {

inline constexpr std::size_t ipv4_bytes = 20;
inline constexpr std::size_t ipv6_bytes = 40;
inline constexpr std::size_t udp_bytes = 8;
inline constexpr std::size_t most_ip_udp_bytes = ipv6_bytes + udp_bytes;

/// Writes both headers and returns their length: DF set over IPv4, 64 hops at most, checksums 0.
/// `datagram_bytes` counts everything behind the UDP header, including the ICRC.
std::size_t encode_ip_udp(const flow& packet_flow, std::uint16_t ipv4_id,
                          std::size_t datagram_bytes, std::byte* out) noexcept;

}  // namespace softverbs::wire
