#pragma once

// time_until: the remaining time of several steps.

#include <algorithm>
#include <chrono>

#include <rdmaxx/core/clock.hpp>

namespace RDMAXX_NAMESPACE::detail {

/// Rounded up; never negative.
[[nodiscard]] inline std::chrono::milliseconds time_until(library_clock::time_point end) noexcept {
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(end - library_clock::now());
  return std::max(left, std::chrono::milliseconds::zero());
}

}  // namespace RDMAXX_NAMESPACE::detail
