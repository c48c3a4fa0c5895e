#pragma once

// keep_alive: when a stream asks its peer's device for a sign of life, and when it gives up. No
// I/O: the driver posts what is asked for and tells what has completed.
//
// Anything that completes is a sign of life. While nothing is under way, the device is asked when
// the period is over; what is under way needs no question. What stays under way for `timeout`
// without anything completing is the end. The last part of that time is granted only when the rest
// has been found over: a program that was stopped itself looks at its completions once more.
//
// Threads: one at a time.

#include <chrono>
#include <cstdint>
#include <optional>

#include <rdmaxx/core/clock.hpp>

namespace RDMAXX_NAMESPACE::detail {

class keep_alive {
 public:
  using time_point = library_clock::time_point;
  enum class action : std::uint8_t { none, ask, give_up };

  /// A period of 0 never does anything.
  keep_alive(std::chrono::milliseconds period, std::chrono::milliseconds timeout,
             time_point now) noexcept
      : period_(period), timeout_(timeout), heard_at_(now) {}

  /// Something has completed.
  void heard() noexcept { heard_ = true; }

  /// What to do now, if a thread is about to sleep. `under_way`: a request has not completed yet.
  [[nodiscard]] action next(time_point now, bool under_way) noexcept;
  /// When to ask again.
  [[nodiscard]] time_point wake_at() const noexcept { return wake_at_; }

 private:
  [[nodiscard]] action wait_until(time_point when) noexcept {
    wake_at_ = when;
    return action::none;
  }

  std::chrono::milliseconds period_;
  std::chrono::milliseconds timeout_;
  time_point heard_at_;
  time_point wake_at_ = time_point::max();
  std::optional<time_point> unanswered_since_{};
  std::optional<time_point> suspected_at_{};
  bool heard_ = false;
};

}  // namespace RDMAXX_NAMESPACE::detail
