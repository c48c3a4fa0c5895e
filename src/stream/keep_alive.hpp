#pragma once

// keep_alive: when a stream probes its peer's device, and when it gives up. No I/O: the driver
// posts the probes and reports what has completed.
//
// Any completion proves that the device is alive. While nothing is in flight, the device is probed
// once per period; while something is in flight, no probe is needed. If something is in flight for
// `timeout` and nothing completes, the connection is given up. The last part of that time starts
// only when the first part has been seen to expire, so that a program that was stopped itself
// checks its completions once more.
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

  /// What to do now, when a thread is about to sleep. `under_way`: a request has not completed yet.
  [[nodiscard]] action next(time_point now, bool under_way) noexcept;
  /// When to call it again.
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
