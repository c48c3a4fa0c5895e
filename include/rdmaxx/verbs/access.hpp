#pragma once

// access: what may be done to a registered region, and by whom.

#include <cstdint>
#include <string_view>

#include <infiniband/verbs.h>

#include <rdmaxx/core/flags.hpp>

namespace RDMAXX_NAMESPACE {

enum class access : std::uint32_t {
  local_write =
      IBV_ACCESS_LOCAL_WRITE,  ///< the local device may write: receives, read and atomic results
  remote_write = IBV_ACCESS_REMOTE_WRITE,    ///< peers may write; needs local_write
  remote_read = IBV_ACCESS_REMOTE_READ,      ///< peers may read
  remote_atomic = IBV_ACCESS_REMOTE_ATOMIC,  ///< peers may compare-and-swap and fetch-and-add;
                                             ///< needs local_write
  mw_bind = IBV_ACCESS_MW_BIND,              ///< memory windows may be bound to the region
  zero_based = IBV_ACCESS_ZERO_BASED,        ///< addresses count from the region's start
  on_demand = IBV_ACCESS_ON_DEMAND,          ///< pages are faulted in instead of pinned
  huge_pages = IBV_ACCESS_HUGETLB,           ///< the memory is backed by huge pages
  relaxed_ordering = IBV_ACCESS_RELAXED_ORDERING,  ///< the bus may reorder the device's writes; a
                                                   ///< request, not a demand
};
template <>
inline constexpr bool is_flag_enum<access> = true;
using access_flags = flags<access>;

[[nodiscard]] std::string_view describe(access bit) noexcept;

}  // namespace RDMAXX_NAMESPACE
