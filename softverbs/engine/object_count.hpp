// How many objects of a kind there are, against the most that there may be. Any thread.
#pragma once

#include <atomic>

namespace softverbs::engine {

class object_count {
 public:
  /// False if there are as many as there may be.
  [[nodiscard]] bool add(unsigned limit) noexcept {
    auto now = count_.load(std::memory_order_relaxed);
    do {
      if (now >= limit) return false;
    } while (!count_.compare_exchange_weak(now, now + 1, std::memory_order_relaxed));
    return true;
  }
  void remove() noexcept { count_.fetch_sub(1, std::memory_order_relaxed); }

 private:
  std::atomic<unsigned> count_ = 0;
};

}  // namespace softverbs::engine
