#pragma once

// frame: what a stream sends: 16 bytes of header, then the payload. docs/stream-protocol.md has the
// bytes and the rules.
//
//   encode({.length = 5, .sequence = 7, .granted = 64}, buffer.first<16>());
//   RDMAXX_TRY(auto header, decode_frame(received));  // header.length bytes follow it
//
// decode_frame() checks a frame by itself; the protocol engine checks it against earlier frames.

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include <rdmaxx/core/result.hpp>
#include <rdmaxx/core/text.hpp>

namespace RDMAXX_NAMESPACE::stream_protocol {

using rdmaxx::operator<<;  // found for the types of this namespace, too

enum class frame_kind : std::uint8_t {
  data = 1,    ///< bytes of the stream
  credit = 2,  ///< only its `granted` counts
  stop = 3,    ///< the sender of this frame will not read any more
  reset = 4,   ///< the sender of this frame has given up the connection; a reset_reason follows
};
[[nodiscard]] std::string_view describe(frame_kind kind) noexcept;

/// The payload of a reset: 32 bits.
enum class reset_reason : std::uint32_t {
  aborted = 0,             ///< the program called abort()
  protocol_violation = 1,  ///< the sender of the reset received an invalid frame
};
[[nodiscard]] std::string_view describe(reset_reason reason) noexcept;

inline constexpr std::size_t frame_header_bytes = 16;
inline constexpr std::size_t reset_payload_bytes = 4;

struct frame_header {
  frame_kind kind = frame_kind::data;
  bool fin = false;  ///< the last data frame: the sender will not write any more
  /// How many control frames (all but data) the sender of this frame has received, modulo 2^8.
  std::uint8_t acknowledged = 0;
  /// How many data frames the sender of this frame has ready to follow it; 255 means 255 or more.
  std::uint8_t wanted = 0;
  std::uint32_t length = 0;    ///< of the payload, in bytes
  std::uint32_t sequence = 0;  ///< the first sequence number plus the data frames before this one
  /// The first data frame for which the sender of this frame does not promise a receive buffer yet.
  std::uint32_t granted = 0;

  friend bool operator==(const frame_header&, const frame_header&) noexcept = default;
};
/// "data frame 7 of 5 bytes, fin, grants up to 64"
[[nodiscard]] std::string describe(const frame_header& header);

void encode(const frame_header& header, std::span<std::byte, frame_header_bytes> into) noexcept;

/// `frame` is exactly what was received. An error (EPROTO, category peer) says what is wrong.
[[nodiscard]] result<frame_header> decode_frame(std::span<const std::byte> frame);

/// The error for an invalid frame of the peer: EPROTO, category peer.
[[nodiscard, gnu::cold]] error protocol_violation(std::string problem);

}  // namespace RDMAXX_NAMESPACE::stream_protocol
