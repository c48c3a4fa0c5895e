#pragma once

// spin_policy: how long a wait polls before it goes to sleep.
//
//   spin_policy never;                                     // sleeps at once
//   spin_policy short_while(50us);                         // 50 µs in every wait
//   auto careful = spin_policy::backing_off(100us);        // … less often where it does not help
//
// A wake-up takes tens of microseconds, and most answers arrive sooner. A spin that is shorter than
// the peer's wake-up is wasted on both sides: 50 to 100 µs suit most programs.
//
// A value without I/O; one waiter owns it. Threads: one at a time.

#include <algorithm>
#include <chrono>
#include <cstdint>

#include <rdmaxx/core/variant.hpp>

namespace RDMAXX_NAMESPACE {

class spin_policy {
 public:
  /// A wait that never sleeps and arms nothing.
  static constexpr std::chrono::microseconds always = std::chrono::microseconds::max();

  constexpr spin_policy() noexcept = default;
  constexpr explicit spin_policy(std::chrono::microseconds budget) noexcept : budget_(budget) {}
  /// After an unsuccessful spin the next 1, 2, 4 … 31 waits sleep at once; a successful one resets
  /// that. (Deciding by the length of recent waits would get stuck: two sides that sleep make each
  /// other's waits long.)
  [[nodiscard]] static constexpr spin_policy backing_off(
      std::chrono::microseconds budget) noexcept {
    spin_policy made(budget);
    made.backs_off_ = true;
    return made;
  }

  /// How long the wait that starts now should poll.
  [[nodiscard]] constexpr std::chrono::microseconds next() noexcept {
    if (to_skip_ == 0) return budget_;
    --to_skip_;
    return std::chrono::microseconds::zero();
  }
  /// Reports whether polling was successful.
  constexpr void report(bool has_found) noexcept {
    if (!backs_off_) return;
    last_skip_ = has_found ? 0U : std::clamp(last_skip_ * 2, 1U, longest_skip);
    to_skip_ = last_skip_;
  }

 private:
  static constexpr std::uint32_t longest_skip = 31;

  std::chrono::microseconds budget_{};
  std::uint32_t last_skip_ = 0;
  std::uint32_t to_skip_ = 0;
  bool backs_off_ = false;
};

}  // namespace RDMAXX_NAMESPACE
