#include "stream/deferred_flush.hpp"

#include <algorithm>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <unistd.h>

#include <rdmaxx/core/log.hpp>

#include "core/start_thread.hpp"
#include "stream/stream_connection.hpp"

namespace RDMAXX_NAMESPACE::detail {

namespace {

constexpr std::chrono::microseconds shortest_interval{200};
constexpr std::chrono::microseconds longest_interval{50'000};

class flush_service {
 public:
  void add(stream_connection& whose, std::chrono::microseconds after) {
    {
      const std::lock_guard lock(mutex_);
      const auto interval = std::max(after, shortest_interval);
      entries_.push_back({.whose = &whose,
                          .interval = interval,
                          .due = deadline_after(std::chrono::steady_clock::now(), interval)});
    }
    changed_.notify_all();
  }

  void remove(stream_connection& whose) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return flushing_ != &whose; });
    std::erase_if(entries_, [&](const entry& one) { return one.whose == &whose; });
  }

 private:
  struct entry {
    stream_connection* whose;
    std::chrono::microseconds interval;
    std::chrono::steady_clock::time_point due;
  };

  void work() {
    std::unique_lock lock(mutex_);
    for (;;) {
      if (entries_.empty()) {
        changed_.wait(lock);
        continue;
      }
      const auto next = std::ranges::min_element(entries_, {}, &entry::due);
      if (const auto due = next->due; due > std::chrono::steady_clock::now()) {
        changed_.wait_until(lock, due);  // a copy: entries may move meanwhile
        continue;
      }
      auto current = *next;
      entries_.erase(next);
      flushing_ = current.whose;
      lock.unlock();
      const bool is_left = current.whose->flush_deferred();
      lock.lock();
      flushing_ = nullptr;
      if (is_left) {
        current.interval = std::min(current.interval * 2, longest_interval);
        current.due = deadline_after(std::chrono::steady_clock::now(), current.interval);
        entries_.push_back(current);
      }
      changed_.notify_all();  // a thread may be waiting to remove it
    }
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<entry> entries_;
  stream_connection* flushing_ = nullptr;  ///< without the lock
  std::thread thread_ = start_thread("rdmaxx-flush", [this] { work(); });
};

/// The service of this process: a forked child does not have its parent's thread. Never destroyed:
/// the thread runs until the process ends.
flush_service& this_process_service() {
  static std::mutex mutex;
  static flush_service* service = nullptr;
  static pid_t owner = 0;
  const std::lock_guard lock(mutex);
  if (owner != ::getpid()) {
    service = new flush_service;
    owner = ::getpid();
  }
  return *service;
}

}  // namespace

bool defer_flush(stream_connection& whose, std::chrono::microseconds after) {
  try {
    this_process_service().add(whose, after);
    return true;
  } catch (const std::exception& failure) {
    log(log_level::warning,
        fmt::format(
            "cannot start the flush thread; unsent bytes of a stream wait for its next call: {}",
            failure.what()));
    return false;
  }
}

void cancel_deferred_flush(stream_connection& whose) { this_process_service().remove(whose); }

}  // namespace RDMAXX_NAMESPACE::detail
