#include <engine/virtual_time.hpp>

#include <algorithm>
#include <mutex>
#include <vector>

#include <base/lock_order.hpp>
#include <engine/per_process.hpp>

namespace softverbs::engine {
namespace {

struct time_of_process {
  /// Held by whoever changes the clock and runs timers; taken first.
  ranked_mutex<lock_rank::virtual_time> moving;
  /// Guards the list alone: sources are added under locks that timers take.
  ranked_mutex<lock_rank::time_sources> mutex;
  std::vector<time_source*> sources;

  [[nodiscard]] std::vector<time_source*> all() {
    const std::lock_guard lock(mutex);
    return sources;
  }
};

time_of_process& process_time() {
  static per_process<time_of_process> all;
  return all.get();
}

void tell_all(time_of_process& time) {
  for (auto* each : time.all()) each->clock_changed();
}

}  // namespace

void add_time_source(time_source& who) {
  auto& time = process_time();
  const std::lock_guard lock(time.mutex);
  time.sources.push_back(&who);
}

void remove_time_source(time_source& who) {
  auto& time = process_time();
  const std::lock_guard moving(time.moving);
  const std::lock_guard lock(time.mutex);
  std::erase(time.sources, &who);
}

void stop_time() {
  auto& time = process_time();
  const std::lock_guard lock(time.moving);
  if (clock::is_stopped()) return;
  clock::stop();
  tell_all(time);
}

void resume_time() {
  auto& time = process_time();
  const std::lock_guard lock(time.moving);
  if (!clock::is_stopped()) return;
  clock::resume();
  tell_all(time);
}

bool advance_time(std::chrono::nanoseconds by) {
  auto& time = process_time();
  const std::lock_guard lock(time.moving);
  if (!clock::is_stopped()) return false;
  const auto target = clock::now() + by;
  for (;;) {
    const auto sources = time.all();
    while (std::ranges::count_if(sources, [](auto* each) { return each->settle(); }) > 0) {
    }
    const auto next = std::ranges::min_element(sources, {}, &time_source::next_due);
    const auto due = next == sources.end() ? never : (*next)->next_due();
    if (due > target) break;
    clock::move_to(std::max(due, clock::now()));
    (*next)->run_due();
  }
  clock::move_to(target);
  return true;
}

}  // namespace softverbs::engine
