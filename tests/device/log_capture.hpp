#pragma once

// log_capture: what the library logs while this object lives.

#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include <rdmaxx/rdmaxx.hpp>

namespace rdmaxx::device_tests {

class log_capture {
 public:
  log_capture() {
    set_log_sink([this](log_level, std::string_view message) {
      const std::lock_guard lock(mutex_);
      lines_.emplace_back(message);
    });
  }
  log_capture(const log_capture&) = delete;
  log_capture& operator=(const log_capture&) = delete;
  ~log_capture() { set_log_sink({}); }

  [[nodiscard]] std::vector<std::string> lines() const {
    const std::lock_guard lock(mutex_);
    return lines_;
  }

 private:
  mutable std::mutex mutex_;
  std::vector<std::string> lines_;
};

}  // namespace rdmaxx::device_tests
