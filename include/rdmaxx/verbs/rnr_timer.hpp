#pragma once

// rnr_timer: how long a peer that found no posted receive waits before it retries.
//
//   qp.connect(peer, {.min_rnr_timer = 1ms}).value();                  // rounded up to 1.28 ms
//   qp.connect(peer, {.min_rnr_timer = rnr_timer::from_code(14)}).value();     // the same, exact
//
// Devices support the 32 times of the IBTA's table 45, from 10 us (code 1) to 655.36 ms (code 0).
//
// A value; immutable in all threads.

#include <array>
#include <chrono>
#include <cstdint>
#include <string>

#include <rdmaxx/core/variant.hpp>

namespace RDMAXX_NAMESPACE {

class rnr_timer {
 public:
  static constexpr std::uint8_t largest_code = 31;

  /// The shortest time that lasts at least `wanted`; the longest one if none does.
  template <class Rep, class Period>
  constexpr rnr_timer(std::chrono::duration<Rep, Period> wanted) noexcept  // NOLINT(*-explicit-*)
      : code_(code_for(wanted)) {}
  /// Passed to the device unchanged, which refuses more than largest_code.
  [[nodiscard]] static constexpr rnr_timer from_code(std::uint8_t code) noexcept {
    rnr_timer exact{std::chrono::nanoseconds(0)};
    exact.code_ = code;
    return exact;
  }

  [[nodiscard]] constexpr std::uint8_t code() const noexcept { return code_; }
  /// For a valid code.
  [[nodiscard]] constexpr std::chrono::microseconds duration() const noexcept {
    return duration_of(code_);
  }

  friend constexpr bool operator==(rnr_timer, rnr_timer) noexcept = default;

 private:
  [[nodiscard]] static constexpr std::chrono::microseconds duration_of(std::uint8_t code) noexcept {
    constexpr std::array<std::uint32_t, largest_code + 1> tens_of_microseconds{
        65536, 1,    2,    3,    4,    6,     8,     12,    16,    24,   32,
        48,    64,   96,   128,  192,  256,   384,   512,   768,   1024, 1536,
        2048,  3072, 4096, 6144, 8192, 12288, 16384, 24576, 32768, 49152};
    return std::chrono::microseconds(10 * tens_of_microseconds.at(code & largest_code));
  }
  // In floating point: hours::max() in microseconds overflows.
  [[nodiscard]] static constexpr std::uint8_t code_for(
      std::chrono::duration<double, std::micro> wanted) noexcept {
    for (std::uint8_t code = 1; code <= largest_code; ++code) {
      if (duration_of(code) >= wanted) return code;
    }
    return 0;
  }

  std::uint8_t code_;
};
/// "1.28 ms (code 14)"
[[nodiscard]] std::string describe(rnr_timer timer);

}  // namespace RDMAXX_NAMESPACE
