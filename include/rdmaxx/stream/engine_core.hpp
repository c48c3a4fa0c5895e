#pragma once

// engine_core: what the two halves of a protocol_engine share: the negotiated terms, the memory,
// the counters, and the failure. Users see its parts through protocol_engine.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include <rdmaxx/core/error.hpp>
#include <rdmaxx/stream/greeting.hpp>
#include <rdmaxx/stream/receive_pool.hpp>
#include <rdmaxx/stream/send_pool.hpp>

namespace RDMAXX_NAMESPACE::stream_protocol {

/// Registered memory that a driver lends an engine, for the device to read and write.
struct engine_memory {
  std::span<std::byte> control{};  ///< send_half::control_bytes of its own, for small frames
  send_pool* send = nullptr;
  std::uint32_t send_buffers = 4;  ///< how many the stream may borrow at a time
  receive_pool* receive = nullptr;
};
/// "sends from 4 of 4 buffers of 16384 bytes, receives in 64 buffers of 16384 bytes"
[[nodiscard]] std::string describe(const engine_memory& memory);

struct engine_statistics {
  std::uint64_t bytes_written = 0;  ///< accepted by write() and write_in_place()
  std::uint64_t bytes_read = 0;     ///< handed to the reader
  std::uint64_t frames_sent = 0;
  std::uint64_t frames_received = 0;
  std::uint64_t credit_frames_sent = 0;
  std::uint64_t credit_frames_received = 0;
  std::uint64_t in_place_frames_sent = 0;
  std::uint64_t coalesced_writes = 0;  ///< writes that joined an earlier one in a frame
  std::uint64_t credit_stalls = 0;     ///< how often data had to wait for credits
};
[[nodiscard]] std::string describe(const engine_statistics& statistics);

struct engine_core {
  agreement terms{};
  engine_memory memory{};
  engine_statistics numbers{};
  std::optional<error> failure{};  ///< once there is one, it stays
  bool is_connected = true;
  bool is_lost = false;  ///< the failure is the loss of the connection
};

}  // namespace RDMAXX_NAMESPACE::stream_protocol
