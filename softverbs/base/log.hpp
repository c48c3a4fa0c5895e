// One line on standard error for what a user should know, below the threshold SOFTVERBS_LOG.
#pragma once

#include <string_view>

#include <base/settings.hpp>
#include <fmt/format.h>

namespace softverbs {

[[nodiscard]] inline bool logs(log_level level) { return level <= settings::get().log; }
/// Writes "softverbs[pid]: level: text" in one system call. Nothing is logged for lack of memory.
void write_log(log_level level, std::string_view text);

template <class... Args>
void log(log_level level, fmt::format_string<Args...> text, Args&&... args) noexcept try {
  if (logs(level)) write_log(level, fmt::format(text, std::forward<Args>(args)...));
} catch (...) {  // NOLINT(bugprone-empty-catch): there is nowhere left to report to
}

}  // namespace softverbs
