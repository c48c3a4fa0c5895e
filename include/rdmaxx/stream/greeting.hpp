#pragma once

// greeting: how two streams negotiate, in the private data of the connection request and of its
// acceptance. docs/stream-protocol.md has the bytes.
//
//   const greeting own{.window = {.buffers = 64, .buffer_bytes = 16384}};
//   RDMAXX_TRY(auto peer, greeting::from_bytes(request_private_data));
//   RDMAXX_TRY(auto terms, negotiate(own, peer));   // or an error that says what differs
//   accept_with(answer(own, terms).to_bytes());     // the side that connected negotiates, too
//
// A greeting is a promise: its receive buffers are posted before it is sent.

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include <rdmaxx/core/result.hpp>
#include <rdmaxx/core/text.hpp>

namespace RDMAXX_NAMESPACE::stream_protocol {

using rdmaxx::operator<<;  // found for the types of this namespace, too

/// The receive buffers of one side, and so the most that the other may have in flight.
struct receive_window {
  /// Buffers reserved for control frames: a credit frame, and a stop or a reset.
  static constexpr std::uint32_t control_buffers = 2;
  static constexpr std::uint32_t fewest_buffers = control_buffers + 1;
  static constexpr std::uint32_t most_buffers = 65536;
  static constexpr std::uint32_t fewest_bytes = 64;
  static constexpr std::uint32_t most_bytes = 16U << 20;

  std::uint32_t buffers = 64;
  std::uint32_t buffer_bytes = 16384;  ///< of each buffer, including the frame's header
  std::uint32_t growth = 0;            ///< how many more buffers a busy peer may get

  /// How many data frames the peer may always have in flight, and at most.
  [[nodiscard]] std::uint32_t credits() const noexcept { return buffers - control_buffers; }
  [[nodiscard]] std::uint32_t most_credits() const noexcept { return credits() + growth; }

  /// The error names the limit that is exceeded. Check windows that come from a peer.
  [[nodiscard]] result<void> check() const;

  friend bool operator==(const receive_window&, const receive_window&) noexcept = default;
};
/// "64 buffers of 16384 bytes", "4 to 68 buffers of 4096 bytes"
[[nodiscard]] std::string describe(const receive_window& window);

inline constexpr std::uint16_t lowest_version = 2;   ///< that this library speaks
inline constexpr std::uint16_t highest_version = 2;  ///< that this library speaks

struct greeting {
  std::uint16_t lowest = lowest_version;
  std::uint16_t highest = highest_version;
  std::uint32_t features = 0;  ///< bits of optional features; version 2 has none
  receive_window window{};
  std::uint32_t first_sequence = 0;  ///< of the data frames that this side will send

  static constexpr std::size_t serialized_size = 32;

  [[nodiscard]] std::array<std::byte, serialized_size> to_bytes() const noexcept;
  /// Bytes after the greeting are ignored, because connection managers pad private data.
  [[nodiscard]] static result<greeting> from_bytes(std::span<const std::byte> bytes);

  friend bool operator==(const greeting&, const greeting&) noexcept = default;
};
/// "stream versions 2 to 2, 64 buffers of 16384 bytes"
[[nodiscard]] std::string describe(const greeting& hello);

/// What both sides have agreed on, as one of them sees it.
struct agreement {
  std::uint16_t version = highest_version;
  std::uint32_t features = 0;  ///< that both have
  receive_window own{};
  receive_window peer{};
  std::uint32_t own_first_sequence = 0;
  std::uint32_t peer_first_sequence = 0;

  friend bool operator==(const agreement&, const agreement&) noexcept = default;
};
/// "stream version 2, receives in … and sends into …"
[[nodiscard]] std::string describe(const agreement& terms);

/// The highest version that both speak. An error of category peer, or misuse if `own` is wrong.
[[nodiscard]] result<agreement> negotiate(const greeting& own, const greeting& peer);

/// What the accepting side sends back: its greeting, narrowed down to the negotiated terms.
[[nodiscard]] greeting answer(const greeting& own, const agreement& terms) noexcept;

}  // namespace RDMAXX_NAMESPACE::stream_protocol
