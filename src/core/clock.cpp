#include <rdmaxx/core/clock.hpp>

#include <algorithm>
#include <limits>

namespace RDMAXX_NAMESPACE {

int library_clock::milliseconds_until(time_point deadline) noexcept {
  if (deadline == time_point::max()) return -1;
  // Advancing a stopped clock wakes no sleeping thread, so threads check it often.
  const bool runs = detail::stopped_at.load(std::memory_order_relaxed) == detail::clock_runs;
  const long long longest = runs ? std::numeric_limits<int>::max() : 1;
  const auto here = now();
  if (deadline <= here) return 0;
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - here).count();
  return static_cast<int>(std::min<long long>(left, longest));
}

manual_clock::manual_clock() noexcept {
  detail::stopped_at =
      std::chrono::nanoseconds(std::chrono::steady_clock::now().time_since_epoch()).count();
}

manual_clock::~manual_clock() { detail::stopped_at = detail::clock_runs; }

void manual_clock::advance(std::chrono::nanoseconds by) noexcept {
  detail::stopped_at += by.count();
}

}  // namespace RDMAXX_NAMESPACE
