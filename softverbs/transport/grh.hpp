// The 40 bytes in front of a UD message (11.4.1.2): where it came from.
#pragma once

#include <array>
#include <cstddef>

#include <net/address.hpp>
#include <wire/packet.hpp>

namespace softverbs::transport {

inline constexpr std::size_t grh_bytes = 40;

/// The IPv6 header of the packet, or, as RoCEv2 devices do, its IPv4 header in the last 20 bytes
/// (annex A17.4.5.2).
[[nodiscard]] std::array<std::byte, grh_bytes> global_route_header(const wire::packet& packet,
                                                                   const net::address& source,
                                                                   const net::address& destination);

}  // namespace softverbs::transport
