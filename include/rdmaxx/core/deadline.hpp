#pragma once

// deadline: when a wait is over. Times are added here and nowhere else, because now() +
// milliseconds::max() overflows, and an unlimited wait would end at once.
//
//   const auto end = deadline_after(steady_clock::now(), timeout);     // any unit, any size
//
// Threads: any.

#include <chrono>

#include <rdmaxx/core/variant.hpp>

namespace RDMAXX_NAMESPACE {

/// Longer waits are cut to this.
inline constexpr std::chrono::hours longest_wait{24 * 365};

/// `wait` after `start`: at most a year later, and never earlier.
template <class Clock, class Step, class Rep, class Period>
[[nodiscard]] constexpr std::chrono::time_point<Clock, Step> deadline_after(
    std::chrono::time_point<Clock, Step> start, std::chrono::duration<Rep, Period> wait) noexcept {
  // Compared in the caller's own unit: converting hours::max() to milliseconds overflows, too.
  using unit = std::chrono::duration<Rep, Period>;
  constexpr auto longest = std::chrono::ceil<unit>(longest_wait);
  Step bounded{};
  if (wait >= longest)
    bounded = longest_wait;
  else if (wait > unit::zero())
    bounded = std::chrono::ceil<Step>(wait);
  constexpr auto last = std::chrono::time_point<Clock, Step>::max();
  return start > last - bounded ? last : start + bounded;
}

}  // namespace RDMAXX_NAMESPACE
