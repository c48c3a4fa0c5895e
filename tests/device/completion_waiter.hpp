#pragma once

// completion_waiter: polls until the expected completions have arrived.
//
// A device in an emulated machine is slow at times, so the timeout is long; it never sleeps for a
// guessed time. If the expected completions do not arrive, the error lists those that did.

#include <chrono>
#include <cstddef>
#include <vector>

#include <rdmaxx/rdmaxx.hpp>

namespace rdmaxx::device_tests {

inline constexpr std::chrono::seconds patience{30};

/// The next `count` completions, successful or not; throws if they do not arrive.
[[nodiscard]] std::vector<work_completion> wait_for(const completion_queue& cq, std::size_t count);
[[nodiscard]] work_completion wait_for_one(const completion_queue& cq);

/// The next completions, of which none may have failed.
std::vector<work_completion> wait_for_successes(const completion_queue& cq, std::size_t count);
work_completion wait_for_success(const completion_queue& cq);

/// What is there now.
[[nodiscard]] std::vector<work_completion> completions_in(const completion_queue& cq);

/// Calls `done` until it returns true; throws, saying `what` was waited for, if it does not.
template <class Condition>
void wait_until(const char* what, Condition done);

namespace detail {
[[noreturn]] void give_up(const char* what);
}

template <class Condition>
void wait_until(const char* what, Condition done) {
  const auto deadline = std::chrono::steady_clock::now() + patience;
  while (!done()) {
    if (std::chrono::steady_clock::now() >= deadline) detail::give_up(what);
  }
}

}  // namespace rdmaxx::device_tests
