#include <base/log.hpp>

#include <cerrno>

#include <unistd.h>

namespace softverbs {

namespace {

std::string_view name_of(log_level level) {
  switch (level) {
    case log_level::none:
      break;
    case log_level::error:
      return "error";
    case log_level::warning:
      return "warning";
    case log_level::info:
      return "info";
    case log_level::debug:
      return "debug";
  }
  return "note";
}

}  // namespace

void write_log(log_level level, std::string_view text) {
  const int error_of_caller = errno;  // verbs tell by errno what failed
  const auto line = fmt::format("softverbs[{}]: {}: {}\n", ::getpid(), name_of(level), text);
  // If standard error is closed or full there is nowhere left to report to.
  [[maybe_unused]] const auto written = ::write(STDERR_FILENO, line.data(), line.size());
  errno = error_of_caller;
}

}  // namespace softverbs
