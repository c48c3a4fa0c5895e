// The RoCEv2 packet from the Base Transport Header (BTH) to the last payload byte, as it stands
// behind a UDP header: decoded into plain integers, and encoded from them.
//
// References are to the InfiniBand Architecture Specification, volume 1, release 1.4: chapter 9 for
// the headers and annex A17 for RoCEv2.
//
// Everything here is a pure function of its arguments and may be called from any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

namespace softverbs::wire {

inline constexpr std::size_t bth_bytes = 12;
inline constexpr std::size_t icrc_bytes = 4;
/// BTH + XRCETH + AtomicETH: nothing stands before a payload that is longer.
inline constexpr std::size_t most_header_bytes = 12 + 4 + 28;
inline constexpr std::uint16_t roce_udp_port = 4791;
inline constexpr std::uint32_t psn_mask = 0xff'ffff;
inline constexpr std::uint32_t qpn_mask = 0xff'ffff;
inline constexpr std::uint32_t multicast_qpn = 0xff'ffff;

/// The upper three bits of the opcode (table 38).
enum class transport : std::uint8_t {
  rc = 0x00,
  uc = 0x20,
  rd = 0x40,
  ud = 0x60,
  cnp = 0x80,
  xrc = 0xa0
};

/// The lower five bits of the opcode. Not every transport has every operation.
enum class operation : std::uint8_t {
  send_first = 0x00,
  send_middle = 0x01,
  send_last = 0x02,
  send_last_immediate = 0x03,
  send_only = 0x04,
  send_only_immediate = 0x05,
  write_first = 0x06,
  write_middle = 0x07,
  write_last = 0x08,
  write_last_immediate = 0x09,
  write_only = 0x0a,
  write_only_immediate = 0x0b,
  read_request = 0x0c,
  read_response_first = 0x0d,
  read_response_middle = 0x0e,
  read_response_last = 0x0f,
  read_response_only = 0x10,
  acknowledge = 0x11,
  atomic_acknowledge = 0x12,
  compare_swap = 0x13,
  fetch_add = 0x14,
  send_last_invalidate = 0x16,
  send_only_invalidate = 0x17,
};

/// Every field of every header that a packet can have; which of them count follows from `op` and
/// `service`. All integers are in host byte order except `immediate`, whose bytes belong to the
/// user and are passed on as they are (as in ibv_send_wr::imm_data).
struct headers {
  // BTH (9.2)
  transport service = transport::rc;
  operation op = operation::send_only;
  bool solicited = false;
  bool ack_request = false;
  std::uint8_t pad_bytes = 0;  ///< 0 to 3, after the payload
  std::uint16_t pkey = 0xffff;
  std::uint32_t destination_qpn = 0;
  std::uint32_t psn = 0;

  std::uint32_t xrc_srqn = 0;  ///< XRCETH

  // DETH
  std::uint32_t qkey = 0;
  std::uint32_t source_qpn = 0;

  // RETH and AtomicETH
  std::uint64_t remote_address = 0;
  std::uint32_t rkey = 0;
  std::uint32_t dma_length = 0;
  std::uint64_t swap_or_add = 0;
  std::uint64_t compare = 0;

  // AETH and AtomicAckETH
  std::uint8_t syndrome = 0;
  std::uint32_t msn = 0;
  std::uint64_t original = 0;

  std::uint32_t immediate = 0;
  std::uint32_t invalidate_rkey = 0;

  friend bool operator==(const headers&, const headers&) = default;
};

struct packet {
  headers header{};
  std::span<const std::byte> payload{};  ///< without the pad
};

/// False for pairs that the specification does not define (there is no UC read, for instance).
/// The acknowledge operation is also accepted for UC and UD: softverbs devices of one host use it
/// between themselves as flow control, see docs/softverbs.md.
[[nodiscard]] bool is_defined(transport service, operation op) noexcept;

/// Bytes from the BTH to the payload.
[[nodiscard]] std::size_t header_bytes(transport service, operation op) noexcept;
/// From the BTH to the ICRC.
[[nodiscard]] inline std::size_t packet_bytes(const headers& header, std::size_t payload) noexcept {
  return header_bytes(header.service, header.op) + payload + header.pad_bytes + icrc_bytes;
}

/// Decodes one UDP payload: BTH … pad, ICRC. Nothing if it is too short, its opcode is undefined,
/// its transport header version is not 0, its pad is longer than what follows the headers, or an
/// operation without payload carries one. The ICRC is not looked at.
///
/// The undefined opcodes of the reliable services are decoded, as a BTH and a payload: whoever
/// receives them has to refuse them by an answer (9.7.4.1), so ask is_defined().
[[nodiscard]] std::optional<packet> decode(std::span<const std::byte> datagram) noexcept;

/// Writes the headers and returns their length; `out` has room for most_header_bytes.
std::size_t encode(const headers& header, std::byte* out) noexcept;

/// AETH syndromes (9.7.5.2.1 and table 46).
inline constexpr std::uint8_t syndrome_ack = 0x1f;  ///< 31: no end-to-end credits
inline constexpr std::uint8_t syndrome_rnr = 0x20;  ///< + the timer's 5-bit code
inline constexpr std::uint8_t syndrome_nak = 0x60;  ///< + one of:
enum class nak : std::uint8_t {
  sequence = 0,
  invalid_request = 1,
  remote_access = 2,
  remote_operational = 3
};

[[nodiscard]] constexpr bool is_ack(std::uint8_t syndrome) { return (syndrome & 0x60) == 0; }
[[nodiscard]] constexpr bool is_rnr(std::uint8_t syndrome) {
  return (syndrome & 0x60) == syndrome_rnr;
}
[[nodiscard]] constexpr bool is_nak(std::uint8_t syndrome) {
  return (syndrome & 0x60) == syndrome_nak;
}

/// How far `later` is ahead of `earlier`, from -2^23 to 2^23 - 1 (PSNs count modulo 2^24).
[[nodiscard]] constexpr std::int32_t psn_distance(std::uint32_t earlier, std::uint32_t later) {
  return static_cast<std::int32_t>((later - earlier) << 8) >> 8;
}

}  // namespace softverbs::wire
