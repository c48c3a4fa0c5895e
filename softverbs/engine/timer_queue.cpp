#include <engine/timer_queue.hpp>

#include <algorithm>
#include <tuple>
#include <utility>

namespace softverbs::engine {

bool timer_queue::is_later(const timer& a, const timer& b) noexcept {
  return std::tie(a.when, a.order) > std::tie(b.when, b.order);
}

void timer_queue::set(endpoint& who, time_point when) {
  if (who.timer_set_for <= when) return;
  add({.when = when, .who = who.shared_from_this(), .function = {}});
  who.timer_set_for = when;
}

void timer_queue::at(time_point when, std::function<void()> function) {
  add({.when = when, .who = {}, .function = std::move(function)});
}

void timer_queue::add(timer added) {
  const auto when = added.when;
  {
    const std::lock_guard lock(mutex_);
    added.order = timers_set_++;
    heap_.push_back(std::move(added));
    std::ranges::push_heap(heap_, is_later);
  }
  on_set_(when);
}

time_point timer_queue::next_due() const {
  const std::lock_guard lock(mutex_);
  return heap_.empty() ? never : heap_.front().when;
}

std::optional<timer_queue::timer> timer_queue::take_due(time_point now) {
  const std::lock_guard lock(mutex_);
  if (heap_.empty() || heap_.front().when > now) return std::nullopt;
  std::ranges::pop_heap(heap_, is_later);
  auto due = std::move(heap_.back());
  heap_.pop_back();
  return due;
}

}  // namespace softverbs::engine
