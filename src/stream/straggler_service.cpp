#include "stream/straggler_service.hpp"

#include <algorithm>
#include <condition_variable>
#include <csignal>
#include <exception>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <unistd.h>

#include <rdmaxx/core/log.hpp>

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
      entries_.push_back({.whose = whose,
                          .interval = interval,
                          .due = deadline_after(std::chrono::steady_clock::now(), interval)});
    }
    changed_.notify_one();
  }

 private:
  struct entry {
    std::weak_ptr<conversation> whose;
    std::chrono::microseconds interval;
    std::chrono::steady_clock::time_point due;
  };

  /// With all signals blocked: the program's handlers run on its own threads.
  std::jthread started() {
    sigset_t all{};
    sigset_t before{};
    ::sigfillset(&all);
    ::pthread_sigmask(SIG_SETMASK, &all, &before);
    std::exception_ptr failure;
    std::jthread made;
    try {
      made = std::jthread([this] { work(); });
    } catch (...) {
      failure = std::current_exception();
    }
    ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
    if (failure) std::rethrow_exception(failure);
    return made;
  }

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
    current.due = deadline_after(std::chrono::steady_clock::now(), current.interval);
    return true;
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<entry> entries_;
  std::jthread thread_ = started();
};

}  // namespace

bool push_later(const std::shared_ptr<conversation>& whose, std::chrono::microseconds after) {
  // A child of a fork does not have its parent's thread. What has been made is never destroyed: the
  // threads run until the very end.
  static std::mutex mutex;
  static straggler_service* service = nullptr;
  static pid_t owner = 0;
  try {
    const std::lock_guard lock(mutex);
    if (owner != ::getpid()) {
      service = new straggler_service;
      owner = ::getpid();
    }
    service->add(whose, after);
    return true;
  } catch (const std::exception& failure) {
    log(log_level::warning,
        fmt::format("what a stream has left behind waits for its next call: {}", failure.what()));
    return false;
  }
}

}  // namespace rdmaxx::inline v0::detail
