#include <rdmaxx/core/log.hpp>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <mutex>
#include <utility>

#include <fmt/format.h>

namespace RDMAXX_NAMESPACE {

namespace {

log_level threshold_from_environment() noexcept {
  const char* wanted = std::getenv("RDMAXX_LOG");
  if (wanted == nullptr) return log_level::warning;
  for (const auto level :
       {log_level::debug, log_level::info, log_level::warning, log_level::error, log_level::off}) {
    if (describe(level) == wanted) return level;
  }
  return log_level::warning;
}

struct logger {
  std::atomic<log_level> threshold{threshold_from_environment()};
  std::mutex mutex;
  std::shared_ptr<const log_sink> sink;  // null: standard error
};

// Never destroyed: destructors of static objects may still log.
logger& instance() {
  static auto* const only = new logger;
  return *only;
}

}  // namespace

std::string_view describe(log_level level) noexcept {
  switch (level) {
    case log_level::debug:
      return "debug";
    case log_level::info:
      return "info";
    case log_level::warning:
      return "warning";
    case log_level::error:
      return "error";
    case log_level::off:
      return "off";
  }
  return "unknown";
}

void set_log_sink(log_sink sink) {
  auto next = sink ? std::make_shared<const log_sink>(std::move(sink)) : nullptr;
  const std::lock_guard lock(instance().mutex);
  instance().sink.swap(next);
}

void set_log_threshold(log_level level) noexcept {
  instance().threshold.store(level, std::memory_order_relaxed);
}

log_level log_threshold() noexcept { return instance().threshold.load(std::memory_order_relaxed); }

void log(log_level level, std::string_view message) noexcept try {
  if (level < log_threshold() || level == log_level::off) return;
  std::shared_ptr<const log_sink> sink;
  {
    const std::lock_guard lock(instance().mutex);
    sink = instance().sink;
  }
  if (sink != nullptr) {
    (*sink)(level, message);
  } else {
    const std::string line = fmt::format("rdmaxx: {}: {}\n", describe(level), message);
    std::fwrite(line.data(), 1, line.size(), stderr);
  }
} catch (...) {  // NOLINT(bugprone-empty-catch): there is nowhere left to report to
}

}  // namespace RDMAXX_NAMESPACE
