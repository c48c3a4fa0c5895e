#pragma once

// ack_timeout: how long a requester waits for an acknowledgement before it repeats a packet.
//
//   qp.connect(peer, {.ack_timeout = 50ms}).value();            // rounded up to 67.1 ms
//   constexpr auto exact = ack_timeout::from_exponent(14);      // the same
//   qp.connect(peer, {.ack_timeout = exact}).value();
//
// Devices support 4.096 us · 2^n with n from 1 to 31, and 0 for "never" (IBTA 9.7.6.1.3). A device
// may wait up to four times as long.
//
// A value; immutable in all threads.

#include <chrono>
#include <cstdint>
#include <string>

#include <rdmaxx/core/variant.hpp>

namespace RDMAXX_NAMESPACE {

class ack_timeout {
 public:
  static constexpr std::uint8_t largest_exponent = 31;

  /// The shortest timeout that lasts at least `wanted`; the longest one (2.4 h) if none does.
  template <class Rep, class Period>
  constexpr ack_timeout(std::chrono::duration<Rep, Period> wanted) noexcept  // NOLINT(*-explicit-*)
      : exponent_(exponent_for(wanted)) {}
  /// Passed to the device unchanged, which refuses more than largest_exponent.
  [[nodiscard]] static constexpr ack_timeout from_exponent(std::uint8_t exponent) noexcept {
    ack_timeout exact{std::chrono::nanoseconds(0)};
    exact.exponent_ = exponent;
    return exact;
  }
  /// Waits forever and retransmits nothing.
  [[nodiscard]] static constexpr ack_timeout never() noexcept { return from_exponent(0); }

  [[nodiscard]] constexpr std::uint8_t exponent() const noexcept { return exponent_; }
  [[nodiscard]] constexpr bool is_never() const noexcept { return exponent_ == 0; }
  /// For a valid exponent; nanoseconds::max() for never().
  [[nodiscard]] constexpr std::chrono::nanoseconds duration() const noexcept {
    return is_never() ? std::chrono::nanoseconds::max() : duration_of(exponent_);
  }

  friend constexpr bool operator==(ack_timeout, ack_timeout) noexcept = default;

 private:
  [[nodiscard]] static constexpr std::chrono::nanoseconds duration_of(
      std::uint8_t exponent) noexcept {
    return std::chrono::nanoseconds(std::int64_t{4096} << (exponent & largest_exponent));
  }
  // In floating point: hours::max() in nanoseconds overflows.
  [[nodiscard]] static constexpr std::uint8_t exponent_for(
      std::chrono::duration<double, std::nano> wanted) noexcept {
    std::uint8_t exponent = 1;
    while (exponent < largest_exponent && duration_of(exponent) < wanted) ++exponent;
    return exponent;
  }

  std::uint8_t exponent_;
};
/// "67.1 ms (exponent 14)"
[[nodiscard]] std::string describe(ack_timeout timeout);

}  // namespace RDMAXX_NAMESPACE
