#include "stream/straggler_service.hpp"

#include <algorithm>
#include <condition_variable>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "stream/conversation.hpp"

namespace rdmaxx::inline v0::detail {

namespace {

constexpr std::chrono::microseconds shortest_interval{200};
constexpr std::chrono::microseconds longest_interval{50'000};

class straggler_service {
 public:
  void add(const std::shared_ptr<conversation>& whose, std::chrono::microseconds after) {
    {
      const std::lock_guard lock(mutex_);
      const auto interval = std::max(after, shortest_interval);
      entries_.push_back(
          {.whose = whose, .interval = interval, .due = stream_clock::now() + interval});
    }
    changed_.notify_one();
  }

 private:
  struct entry {
    std::weak_ptr<conversation> whose;
    std::chrono::microseconds interval;
    stream_clock::time_point due;
  };

  void work() {
    std::unique_lock lock(mutex_);
    for (;;) {
      if (entries_.empty()) {
        changed_.wait(lock);
        continue;
      }
      const auto next = std::ranges::min_element(entries_, {}, &entry::due);
      if (next->due > stream_clock::now()) {
        changed_.wait_until(lock, next->due);
        continue;
      }
      auto current = std::move(*next);
      entries_.erase(next);
      lock.unlock();
      const bool left = push(current);
      lock.lock();
      if (left) entries_.push_back(std::move(current));
    }
  }

  static bool push(entry& current) {
    const auto found = current.whose.lock();
    if (found == nullptr || !found->push()) return false;
    current.interval = std::min(current.interval * 2, longest_interval);
    current.due = stream_clock::now() + current.interval;
    return true;
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<entry> entries_;
  std::jthread thread_{[this] { work(); }};
};

}  // namespace

void push_later(const std::shared_ptr<conversation>& whose, std::chrono::microseconds after) {
  static auto* const service = new straggler_service;  // its thread runs until the very end
  service->add(whose, after);
}

}  // namespace rdmaxx::inline v0::detail
