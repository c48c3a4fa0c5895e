#pragma once

// ping: how long a message of 8 bytes takes to the peer and back.

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "connection.hpp"

namespace rdmaxx::tool {

struct ping_limits {
  std::size_t round_trips = 1000;
  std::chrono::milliseconds time{1000};  ///< whichever comes first
};

struct ping_summary {
  std::size_t round_trips = 0;
  std::chrono::nanoseconds minimum{};
  std::chrono::nanoseconds median{};
  std::chrono::nanoseconds p99{};
};

/// All zero if there are no round trips.
[[nodiscard]] ping_summary summarize(std::vector<std::chrono::nanoseconds> round_trips);

/// Sends messages from `here` to `there` and back. Both sides run in this thread and are connected
/// to each other; each message is checked.
[[nodiscard]] ping_summary ping(connection& here, connection& there, const ping_limits& limits);

/// One message there and back. When it returns, everything that `here` wrote before is in place.
[[nodiscard]] std::chrono::nanoseconds round_trip(connection& here, connection& there,
                                                  std::uint64_t message);

}  // namespace rdmaxx::tool
