#pragma once

// bandwidth: how many bytes per second RDMA WRITE or READ moves, with several requests in flight.

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "connection.hpp"

namespace rdmaxx::tool {

enum class transfer : std::uint8_t { write, read };
[[nodiscard]] std::string_view describe(transfer kind) noexcept;

struct bandwidth_wanted {
  transfer kind = transfer::write;
  std::size_t message_bytes = 4096;     ///< at most the connection's memory
  std::chrono::milliseconds time{300};  ///< of posting; then waits for what is in flight
};

struct bandwidth_measured {
  std::uint64_t messages = 0;
  std::uint64_t bytes = 0;
  std::chrono::nanoseconds time{};

  [[nodiscard]] double bytes_per_second() const noexcept;
};

/// How many bytes at the start of the memory a transfer of this message size cycles through.
[[nodiscard]] std::size_t bytes_in_flight(const connection& here,
                                          std::size_t message_bytes) noexcept;

/// Transfers between the memory of `here` and `there`, at the same offsets. The peer's program need
/// not do anything.
[[nodiscard]] bandwidth_measured measure(connection& here, remote_address there,
                                         const bandwidth_wanted& wanted);

}  // namespace rdmaxx::tool
