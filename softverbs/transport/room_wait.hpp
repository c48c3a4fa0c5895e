// When to look again at a ring that is full: nothing tells that its reader has read.
//
// Soon at first, because a reader that runs needs no longer; ever more rarely while it stays full,
// because one that is stopped would cost a wake-up each time. The sender is late by no more than
// the reader was.
#pragma once

#include <algorithm>
#include <chrono>

#include <base/clock.hpp>

namespace softverbs::transport {

class room_wait {
 public:
  static constexpr clock::duration shortest = std::chrono::microseconds(100);
  static constexpr clock::duration longest = std::chrono::milliseconds(10);

  /// The ring is full: how long to wait now.
  [[nodiscard]] clock::duration next() noexcept {
    const auto now = next_;
    next_ = std::min(2 * next_, longest);
    return now;
  }
  /// There was room.
  void reset() noexcept { next_ = shortest; }

 private:
  clock::duration next_ = shortest;
};

}  // namespace softverbs::transport
