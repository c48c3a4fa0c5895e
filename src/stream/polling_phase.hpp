#pragma once

// polling_phase: what a call that has to wait does before it sleeps. It polls, because being woken
// takes longer than most answers do. It gives way to other threads now and then if much is under
// way: where the peer's program, or the thread of a device in software, shares the processor, it
// runs at once then and not when the phase is over. For small messages it does not: on a busy
// machine a thread that gives way may not run again for milliseconds.
//
// A value without I/O; the caller polls and asks for the next step. One call owns it.

#include <chrono>
#include <cstddef>
#include <cstdint>

#include <rdmaxx/core/deadline.hpp>

namespace RDMAXX_NAMESPACE::detail {

class polling_phase {
 public:
  using clock = std::chrono::steady_clock;
  enum class step : std::uint8_t { poll, give_way, over };

  /// A frame of so many bytes is part of something large.
  static constexpr std::size_t bulk_bytes = 16384;
  static constexpr std::chrono::microseconds way_every{10};

  polling_phase(clock::time_point now, clock::duration length, bool gives_way) noexcept
      : end_(deadline_after(now, length)), next_way_(gives_way ? now + way_every : end_) {}

  [[nodiscard]] step next(clock::time_point now) noexcept {
    if (now >= end_) return step::over;
    if (now < next_way_) return step::poll;
    next_way_ = now + way_every;
    return step::give_way;
  }

 private:
  clock::time_point end_;
  clock::time_point next_way_;
};

}  // namespace RDMAXX_NAMESPACE::detail
