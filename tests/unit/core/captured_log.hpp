#pragma once

// captured_log: while it exists, it is the sink and receives everything.

#include <mutex>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <rdmaxx/core/log.hpp>

class captured_log {
 public:
  captured_log() : threshold_(rdmaxx::log_threshold()) {
    rdmaxx::set_log_threshold(rdmaxx::log_level::debug);
    rdmaxx::set_log_sink([this](rdmaxx::log_level level, std::string_view message) {
      const std::lock_guard lock(mutex_);
      entries_.emplace_back(level, message);
    });
  }
  captured_log(const captured_log&) = delete;
  captured_log& operator=(const captured_log&) = delete;
  ~captured_log() {
    rdmaxx::set_log_sink({});
    rdmaxx::set_log_threshold(threshold_);
  }

  /// Each as "level: message".
  [[nodiscard]] std::vector<std::string> lines() const {
    const std::lock_guard lock(mutex_);
    std::vector<std::string> lines;
    for (const auto& [level, message] : entries_) {
      lines.push_back(std::string(describe(level)) + ": " + message);
    }
    return lines;
  }

 private:
  rdmaxx::log_level threshold_;
  mutable std::mutex mutex_;
  std::vector<std::pair<rdmaxx::log_level, std::string>> entries_;
};
