#include <cerrno>
#include <chrono>
#include <string>
#include <string_view>

#include <base/c_function.hpp>
#include <base/settings.hpp>
#include <engine/fault_plan.hpp>
#include <engine/netdev_port.hpp>
#include <engine/virtual_time.hpp>
#include <fmt/ranges.h>
#include <softverbs/softverbs.h>

using namespace softverbs;

namespace {

thread_local std::string faults_problem;

}  // namespace

const char* softverbs_version(void) { return RDMAXX_VERSION; }

int softverbs_set(const char* name, const char* value) try {
  if (name == nullptr || value == nullptr) return EINVAL;
  std::string_view wanted(name);
  if (constexpr std::string_view prefix = "SOFTVERBS_"; wanted.starts_with(prefix)) {
    wanted.remove_prefix(prefix.size());
  }
  switch (settings::set(wanted, value)) {
    case settings::change::done:
      return 0;
    case settings::change::too_late:
      return EBUSY;
    case settings::change::not_understood:
      return EINVAL;
  }
  return EINVAL;
} catch (...) {
  return errno_of_exception();
}

int softverbs_faults(const char* rules) try {
  faults_problem.clear();
  const auto problems =
      engine::fault_plan::of_process().replace(rules != nullptr ? rules : std::string_view());
  if (!problems.empty()) {
    faults_problem = fmt::format("{}", fmt::join(problems, "; "));
    return EINVAL;
  }
  engine::follow_fault_plan();
  return 0;
} catch (...) {
  return errno_of_exception();
}

const char* softverbs_faults_problem(void) { return faults_problem.c_str(); }

uint64_t softverbs_faults_hits(size_t rule) {
  return without_exceptions([&] { return engine::fault_plan::of_process().hits(rule); });
}

uint64_t softverbs_faults_number(void) {
  return without_exceptions([] { return uint64_t{engine::fault_plan::of_process().edition()}; });
}

uint64_t softverbs_faults_hits_of(uint64_t number, size_t rule) {
  return without_exceptions(
      [&] { return engine::fault_plan::of_process().hits(static_cast<unsigned>(number), rule); });
}

void softverbs_time_stop(void) { without_exceptions(engine::stop_time); }

int softverbs_time_advance(uint64_t nanoseconds) try {
  // More would overflow the clock some day.
  constexpr std::chrono::nanoseconds longest = std::chrono::hours(24 * 365 * 10);
  if (nanoseconds > static_cast<uint64_t>(longest.count())) return EINVAL;
  return engine::advance_time(std::chrono::nanoseconds(nanoseconds)) ? 0 : EINVAL;
} catch (...) {
  return errno_of_exception();
}

void softverbs_time_resume(void) { without_exceptions(engine::resume_time); }
