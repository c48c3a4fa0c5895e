#pragma once

// engine_core: what the two halves of a protocol_engine share: the agreement, the memory, the
// counters, and the failure. Users see its parts through protocol_engine.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include <rdmaxx/core/error.hpp>
#include <rdmaxx/stream/greeting.hpp>

namespace RDMAXX_NAMESPACE::stream_protocol {

/// What a driver lends an engine: registered memory, for the device to read and to write.
struct engine_memory {
  std::span<std::byte> send{};          ///< send_half::control_bytes, then the send slots
  std::size_t send_slot_bytes = 16384;  ///< of each one, the frame's header included
  std::span<std::byte> receive{};       ///< the slots of the receive window, one behind the other
};
/// "49280 bytes to send from in slots of 16384, 1048576 bytes to receive in"
[[nodiscard]] std::string describe(const engine_memory& memory);

struct engine_statistics {
  std::uint64_t bytes_written = 0;  ///< accepted by write() and write_in_place()
  std::uint64_t bytes_read = 0;     ///< given to the reader
  std::uint64_t frames_sent = 0;
  std::uint64_t frames_received = 0;
  std::uint64_t credit_frames_sent = 0;
  std::uint64_t credit_frames_received = 0;
  std::uint64_t in_place_frames_sent = 0;
  std::uint64_t coalesced_writes = 0;  ///< that joined bytes of an earlier one in a frame
  std::uint64_t credit_stalls = 0;     ///< times that data had to wait for the peer's buffers
};
[[nodiscard]] std::string describe(const engine_statistics& statistics);

struct engine_core {
  agreement terms{};
  engine_memory memory{};
  engine_statistics numbers{};
  std::optional<error> failure{};  ///< once there is one, it stays
  bool is_connected = true;
  bool is_lost = false;  ///< that is the failure
};

}  // namespace RDMAXX_NAMESPACE::stream_protocol
