// The time that timers run on. It can be stopped and moved by hand (engine/virtual_time.hpp), so it
// is not what a thread sleeps by: wall_time() tells when a moment comes for threads.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>

namespace softverbs {

class clock {
 public:
  using duration = std::chrono::nanoseconds;
  using rep = duration::rep;
  using period = duration::period;
  using time_point = std::chrono::time_point<clock>;
  using wall = std::chrono::steady_clock;
  static constexpr bool is_steady = true;

  [[nodiscard]] static time_point now() noexcept {
    const auto stopped = stopped_at_.load(std::memory_order_relaxed);
    if (stopped != runs) return time_point(duration(stopped));
    return time_point(wall::now().time_since_epoch() +
                      duration(ahead_.load(std::memory_order_relaxed)));
  }

  [[nodiscard]] static bool is_stopped() noexcept {
    return stopped_at_.load(std::memory_order_relaxed) != runs;
  }
  /// Never, while the clock is stopped.
  [[nodiscard]] static wall::time_point wall_time(time_point when) noexcept {
    if (when == time_point::max() || is_stopped()) return wall::time_point::max();
    return wall::time_point(when.time_since_epoch() -
                            duration(ahead_.load(std::memory_order_relaxed)));
  }

  /// In a child of a fork, whose time is its own.
  static void start_anew() noexcept {
    ahead_ = 0;
    stopped_at_ = runs;
  }

  // Only for engine/virtual_time.cpp, which lets one thread at a time do it.
  static void stop() noexcept { stopped_at_ = now().time_since_epoch().count(); }
  static void move_to(time_point when) noexcept { stopped_at_ = when.time_since_epoch().count(); }
  static void resume() noexcept {
    ahead_ = (now().time_since_epoch() - wall::now().time_since_epoch()).count();
    stopped_at_ = runs;
  }

 private:
  static constexpr std::int64_t runs = 0;
  static inline std::atomic<std::int64_t> stopped_at_ = runs;
  static inline std::atomic<std::int64_t> ahead_ = 0;  ///< of the wall's clock, in nanoseconds
};

using time_point = clock::time_point;

inline constexpr time_point never = time_point::max();

}  // namespace softverbs
