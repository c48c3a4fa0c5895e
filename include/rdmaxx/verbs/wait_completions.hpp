#pragma once

// wait_completions: waits for completions, with a deadline and a spin policy.
//
//   std::array<work_completion, 16> wc;
//   auto done = wait_completions(cq, wc, 5s).value();              // ETIMEDOUT after 5 s
//   auto one = wait_completion(cq, 5s, 50us).value();              // polls 50 µs before it sleeps
//
// The wait polls for as long as the policy says, arms the queue, polls once more (a completion that
// arrived before raises no event), and sleeps on the queue's channel. It fetches every event of
// that channel, so no other thread may wait there: queues with different waiting threads need a
// channel each. A queue without a channel is polled until the deadline, yielding to other threads.
//
// Programs connected by rdma_cm use cm::connection::wait_completions(), which also notices when the
// peer disconnects.
//
// Threads: one waiter per completion queue.

#include <chrono>
#include <concepts>
#include <cstddef>
#include <optional>
#include <span>
#include <string_view>
#include <thread>

#include <rdmaxx/core/clock.hpp>
#include <rdmaxx/core/deadline.hpp>
#include <rdmaxx/core/readiness.hpp>
#include <rdmaxx/core/result.hpp>
#include <rdmaxx/verbs/completion_channel.hpp>
#include <rdmaxx/verbs/completion_queue.hpp>
#include <rdmaxx/verbs/completion_source.hpp>
#include <rdmaxx/verbs/spin_policy.hpp>

namespace RDMAXX_NAMESPACE {

/// Returns the part of `into` that the completions fill; ETIMEDOUT if there is none in time.
[[nodiscard]] result<std::span<work_completion>> wait_completions(
    const completion_queue& cq, std::span<work_completion> into,
    std::optional<std::chrono::milliseconds> timeout, spin_policy& spin);
[[nodiscard]] result<std::span<work_completion>> wait_completions(
    const completion_queue& cq, std::span<work_completion> into,
    std::optional<std::chrono::milliseconds> timeout = forever,
    std::chrono::microseconds spin = {});

/// The next completion, successful or not; ETIMEDOUT if there is none in time.
[[nodiscard]] result<work_completion> wait_completion(
    const completion_queue& cq, std::optional<std::chrono::milliseconds> timeout = forever,
    std::chrono::microseconds spin = {});

namespace detail {

/// Nothing has completed within `waited`; `where` says on which queue.
[[nodiscard]] error no_completion(std::chrono::milliseconds waited, std::string_view where);

/// Fetches all events of the channel.
[[nodiscard]] result<void> discard_events(const completion_channel& channel);
/// Sleeps until an event arrives or the deadline has passed, and fetches all events of the channel.
[[nodiscard]] result<void> sleep_on(const completion_channel& channel,
                                    library_clock::time_point deadline);

/// Polls for the policy's time, measured in real time and not by library_clock: a clock that a test
/// has stopped must not keep threads spinning.
template <class Poll>
[[nodiscard]] result<bool> spin_until(library_clock::time_point deadline,
                                      std::chrono::microseconds budget, Poll poll) {
  constexpr std::chrono::microseconds politeness{10};
  const auto begin = std::chrono::steady_clock::now();
  const auto end = rdmaxx::deadline_after(begin, budget);
  for (;;) {
    RDMAXX_TRY(const bool has_found, poll());
    if (has_found) return true;
    const auto now = std::chrono::steady_clock::now();
    if (now >= end || library_clock::now() >= deadline) return false;
    // A software device, or the peer, may need this processor.
    if (now - begin >= politeness) std::this_thread::yield();
  }
}

/// The order that loses no wake-up: poll, arm, poll again, sleep. True when `poll` has found
/// something.
template <class Poll, class Arm, class Sleep>
[[nodiscard]] result<bool> wait_until_found(library_clock::time_point deadline, spin_policy& spin,
                                            Poll poll, Arm arm, Sleep sleep) {
  RDMAXX_TRY(bool has_found, poll());
  if (has_found) return true;
  if (const auto budget = spin.next(); budget > std::chrono::microseconds::zero()) {
    RDMAXX_TRY(has_found, spin_until(deadline, budget, poll));
    spin.report(has_found);
    if (has_found || budget == spin_policy::always) return has_found;
  }
  for (;;) {
    RDMAXX_TRY(arm());
    RDMAXX_TRY(has_found, poll());
    if (has_found || library_clock::now() >= deadline) return has_found;
    RDMAXX_TRY(sleep(deadline));
  }
}

template <class Source, class Poll>
[[nodiscard]] result<bool> wait_on(const Source& source, library_clock::time_point deadline,
                                   spin_policy& spin, Poll poll) {
  const completion_channel& channel = source.channel();
  if (!channel) return spin_until(deadline, spin_policy::always, poll);
  return wait_until_found(
      deadline, spin, poll, [&] { return source.req_notify(notify::any); },
      [&](library_clock::time_point until) { return sleep_on(channel, until); });
}

}  // namespace detail

/// The same for any source: shows up to `most` completions as soon as there are some, and returns
/// how many.
template <completion_source Source, std::invocable<const typename Source::completion_type&> Visit>
[[nodiscard]] result<std::size_t> wait_each(const Source& source, std::size_t most, Visit visit,
                                            std::optional<std::chrono::milliseconds> timeout,
                                            spin_policy& spin) {
  std::size_t shown = 0;
  RDMAXX_TRY(const bool has_found,
             detail::wait_on(source, detail::wait_end(timeout), spin, [&]() -> result<bool> {
               RDMAXX_TRY(shown, source.poll_each(most, visit));
               return shown > 0;
             }));
  if (!has_found && timeout) return detail::no_completion(*timeout, "the completion source");
  return shown;
}

}  // namespace RDMAXX_NAMESPACE
