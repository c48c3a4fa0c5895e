#pragma once

// polling_phase: what a call that has to wait does before it sleeps. It polls, because a wake-up
// takes longer than most answers. In large transfers it yields to other threads now and then: if
// the peer's program, or the thread of a software device, shares the processor, that runs at once
// and not after this phase. For small messages it does not yield: on a busy machine a thread that
// yields may not run again for milliseconds.
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

  /// A frame of at least this size is part of a large transfer.
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
