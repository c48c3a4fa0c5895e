#pragma once

// retry_while_busy: threads that share a listener.
//
// The peer of a request may give up before the request has been separated from the listener. Then
// another thread of the same listener may hold the event that reports this, and the identifier
// cannot move to a channel of its own (EBUSY) until that thread releases the event, which it does
// at once.

#include <chrono>
#include <thread>

#include <rdmaxx/core/readiness.hpp>
#include <rdmaxx/core/result.hpp>

namespace RDMAXX_NAMESPACE::detail {

/// Repeats `attempt` while it fails with EBUSY, for at most a second.
template <class Attempt>
[[nodiscard]] result<void> retry_while_busy(
    Attempt attempt, std::chrono::milliseconds patience = std::chrono::seconds(1)) {
  const auto end = deadline_after(patience);
  for (;;) {
    auto outcome = attempt();
    const bool busy = !outcome && outcome.error() == std::errc::device_or_resource_busy;
    if (!busy || std::chrono::steady_clock::now() >= end) return outcome;
    std::this_thread::yield();
  }
}

}  // namespace RDMAXX_NAMESPACE::detail
