// The outages that the fault plan has asked for on one netdev: a device that is frozen sends,
// receives and counts nothing until it thaws, everything waits; a port that is down loses
// everything.
//
// Owner: the netdev port. Any thread may call any function.
#pragma once

#include <atomic>
#include <chrono>
#include <functional>
#include <optional>

#include <engine/fault_rule.hpp>
#include <engine/netdev_observers.hpp>
#include <engine/timer_queue.hpp>

namespace softverbs::engine {

class outages {
 public:
  /// `thaw` is called at the end of a freeze, with no lock held: what had to wait goes on.
  outages(timer_queue& timers, netdev_observers& observers, std::function<void()> thaw);

  [[nodiscard]] bool is_frozen() const noexcept { return frozen_.load(std::memory_order_relaxed); }
  [[nodiscard]] bool port_is_down() const noexcept {
    return port_down_.load(std::memory_order_relaxed);
  }

  /// Without a duration it lasts until the plan is replaced; if it has been already, nothing
  /// begins. An endpoint's lock may be held.
  void begin(fault_rule::action what, std::optional<std::chrono::nanoseconds> duration,
             unsigned edition);
  /// Ends what another plan has begun, and sets the timers of this one. No lock may be held.
  void follow_plan();

 private:
  [[nodiscard]] std::atomic<bool>& state_of(fault_rule::action what) noexcept {
    return what == fault_rule::action::freeze ? frozen_ : port_down_;
  }
  void end(fault_rule::action what);

  timer_queue& timers_;
  netdev_observers& observers_;
  std::function<void()> thaw_;
  std::atomic<bool> frozen_ = false;
  std::atomic<bool> port_down_ = false;
};

}  // namespace softverbs::engine
