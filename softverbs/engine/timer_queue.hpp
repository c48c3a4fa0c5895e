// The timers of a netdev: those of queue pairs, one for each endpoint, and functions.
//
// Timers that are due at the same time run in the order in which they were set. An endpoint has one
// timer: an earlier one takes the place of a later one, which is then skipped when its time comes.
// The queue has neither a thread nor a clock of its own.
//
// Owner: the netdev port. Any thread may call any function; the queue's lock is a leaf.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include <base/lock_order.hpp>
#include <engine/clock.hpp>
#include <engine/endpoint.hpp>

namespace softverbs::engine {

class timer_queue {
 public:
  /// Told the time of each timer that is set, after it was set: somebody may have to wake earlier.
  using listener = std::function<void(time_point when)>;
  explicit timer_queue(listener on_set) : on_set_(std::move(on_set)) {}
  timer_queue(const timer_queue&) = delete;
  timer_queue& operator=(const timer_queue&) = delete;

  /// The endpoint's timer runs at that time, or earlier. The endpoint's lock is held.
  void set(endpoint& who, time_point when);
  /// The function runs at that time, with no lock held.
  void at(time_point when, std::function<void()> function);

  /// `never` if there is none.
  [[nodiscard]] time_point next_due() const;

  /// Runs the first timer if it is due: its function, or `on_timer(endpoint)` with the endpoint's
  /// lock held. False if none is due. No lock may be held.
  template <class OnTimer>
  bool run_next(time_point now, OnTimer on_timer) {
    const auto due = take_due(now);
    if (!due) return false;
    if (due->function) {
      due->function();
      return true;
    }
    const std::lock_guard lock(due->who->mutex);
    if (due->when != due->who->timer_set_for) return true;  // an earlier one took its place
    due->who->timer_set_for = never;
    on_timer(*due->who);
    return true;
  }

 private:
  struct timer {
    time_point when;
    std::uint64_t order = 0;        ///< of those that are due at once
    std::shared_ptr<endpoint> who;  ///< null for a function
    std::function<void()> function;
  };
  /// Of a heap whose top is the timer that is due first.
  [[nodiscard]] static bool is_later(const timer& a, const timer& b) noexcept;

  void add(timer added);
  [[nodiscard]] std::optional<timer> take_due(time_point now);

  listener on_set_;
  mutable ranked_mutex<lock_rank::timers> mutex_;
  std::vector<timer> heap_;
  std::uint64_t timers_set_ = 0;
};

}  // namespace softverbs::engine
