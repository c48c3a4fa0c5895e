#pragma once

// blocked_thread: a thread of which it can be said that it sleeps.

#include <atomic>
#include <fstream>
#include <string>
#include <thread>
#include <utility>

#include <fmt/format.h>
#include <unistd.h>

namespace softverbs::device_tests {

class blocked_thread {
 public:
  template <class Function>
  explicit blocked_thread(Function function)
      : thread_([this, function = std::move(function)] {
          id_ = ::gettid();
          function();
          ended_ = true;
        }) {}

  /// Until the kernel says that it sleeps, or it has ended (which the test will find out).
  void wait_until_blocked() const {
    while (!ended_) {
      if (id_ != 0) {
        std::ifstream file(fmt::format("/proc/self/task/{}/stat", id_.load()));
        std::string number;
        std::string name;
        std::string state;
        if (file >> number >> name >> state && state == "S") return;
      }
      std::this_thread::yield();
    }
  }

 private:
  std::atomic<pid_t> id_ = 0;
  std::atomic<bool> ended_ = false;
  std::jthread thread_;
};

}  // namespace softverbs::device_tests
