// The invariant CRC of a RoCEv2 packet (annex A17.3.3): CRC-32 over the IP and UDP headers, with
// what routers may change replaced by ones, and everything from the BTH to the pad.
//
// The CRC itself runs on VPCLMULQDQ, PCLMULQDQ or tables, whichever the processor has; the choice
// is made once, at the first use. Pure functions: any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include <net/address.hpp>
#include <sys/uio.h>
#include <wire/packet.hpp>

namespace softverbs::wire {

/// The parts of the IP and UDP headers that a sender chooses. The ICRC covers all but the last.
struct flow {
  net::address source;
  net::address destination;  ///< of the same family as the source
  std::uint16_t source_port = 0;
  std::uint16_t destination_port = 0;
  std::uint8_t traffic_class = 0;  ///< IPv4's type of service
};

/// The ICRC as an integer whose little-endian bytes follow the pad. `parts`, in order, are all that
/// stands between the UDP header and the ICRC. `ipv4_id` is the identification that the packet
/// will have (0 for a single packet sent with DF, k for the k-th segment of a GSO send).
[[nodiscard]] std::uint32_t icrc(const flow& packet_flow, std::uint16_t ipv4_id,
                                 std::span<const iovec> parts) noexcept;

/// Whether `datagram` (a UDP payload: BTH … pad, ICRC) carries the right ICRC. A UDP receiver never
/// learns the IPv4 identification, so over IPv4 any identification that makes the sum come out
/// right is accepted: 16 of the 32 bits still check (all 32 over IPv6).
[[nodiscard]] bool icrc_holds(const flow& packet_flow,
                              std::span<const std::byte> datagram) noexcept;

/// Between processes of one host, zeros may stand for "not summed".
enum class icrc_rule : std::uint8_t { always, zero_is_none };

/// The packet in the datagram; nothing if it is damaged or none.
[[nodiscard]] std::optional<packet> intact_packet(const flow& flow,
                                                  std::span<const std::byte> datagram,
                                                  icrc_rule rule = icrc_rule::always) noexcept;

}  // namespace softverbs::wire
