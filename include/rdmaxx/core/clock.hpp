#pragma once

// library_clock: the time by which the library measures its timeouts and deadlines. It is that of
// std::chrono::steady_clock, unless a test stops it:
//
//   manual_clock time;              // the library's time stands still …
//   time.advance(10s);              // … except for these ten seconds
//
// A waiting thread notices within about a millisecond that its deadline has been reached. A call
// that waits in the thread that should advance the clock never returns: make it in another thread.
// softverbs has a separate clock for its devices, which is stopped the same way
// (docs/testing-your-application.md).
//
// Threads: all functions, any thread. One manual_clock at a time.

#include <atomic>
#include <chrono>
#include <cstdint>

#include <rdmaxx/core/variant.hpp>

namespace RDMAXX_NAMESPACE {

namespace detail {
constexpr std::int64_t clock_runs = -1;
/// Nanoseconds of steady_clock at which it stands still, or clock_runs.
inline std::atomic<std::int64_t> stopped_at{clock_runs};
}  // namespace detail

struct library_clock {
  using time_point = std::chrono::steady_clock::time_point;
  using duration = time_point::duration;

  [[nodiscard]] static time_point now() noexcept {
    const auto stopped = detail::stopped_at.load(std::memory_order_relaxed);
    if (stopped == detail::clock_runs) [[likely]]
      return std::chrono::steady_clock::now();
    return time_point(std::chrono::nanoseconds(stopped));
  }

  /// How long a thread that waits until `deadline` may sleep before it checks the clock again, in
  /// milliseconds for poll(2). Rounded up, or it would spin for the last fraction; -1 for
  /// time_point::max(), which is never reached.
  [[nodiscard]] static int milliseconds_until(time_point deadline) noexcept;
};

/// While it exists, the library's time stands still, except when it is advanced.
class manual_clock {
 public:
  manual_clock() noexcept;
  manual_clock(const manual_clock&) = delete;
  manual_clock& operator=(const manual_clock&) = delete;
  ~manual_clock();

  void advance(std::chrono::nanoseconds by) noexcept;
};

}  // namespace RDMAXX_NAMESPACE
