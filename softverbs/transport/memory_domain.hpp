// What a protection domain is to the transport: a number that regions, windows and queue pairs have
// to share. Front ends choose it, for instance the address of their own object.
#pragma once

#include <cstdint>

namespace softverbs::transport {

struct memory_domain {
  std::uintptr_t id = 0;  ///< 0: none

  friend constexpr bool operator==(const memory_domain&, const memory_domain&) = default;
};

/// Rights to memory (10.6.3.2). The numbers are those of ibv_access_flags.
namespace access {
inline constexpr unsigned local_write = 1U << 0;
inline constexpr unsigned remote_write = 1U << 1;
inline constexpr unsigned remote_read = 1U << 2;
inline constexpr unsigned remote_atomic = 1U << 3;
inline constexpr unsigned bind_window = 1U << 4;
inline constexpr unsigned zero_based = 1U << 5;
}  // namespace access

}  // namespace softverbs::transport
