#pragma once

// readiness: waiting for a file descriptor, which is how the library waits for devices and peers.

#include <chrono>
#include <concepts>
#include <optional>
#include <utility>

#include <rdmaxx/core/clock.hpp>
#include <rdmaxx/core/deadline.hpp>
#include <rdmaxx/core/result.hpp>

namespace RDMAXX_NAMESPACE {

/// A wait of this length lasts until the event arrives.
inline constexpr std::optional<std::chrono::milliseconds> forever = std::nullopt;

/// `timeout` from now, a year at most (core/deadline.hpp).
[[nodiscard]] library_clock::time_point deadline_after(std::chrono::milliseconds timeout) noexcept;

namespace detail {

/// When a wait of that length ends; time_point::max() means never.
[[nodiscard]] inline library_clock::time_point wait_end(
    std::optional<std::chrono::milliseconds> timeout) noexcept {
  return timeout ? deadline_after(*timeout) : library_clock::time_point::max();
}

}  // namespace detail

/// True when `fd` is readable, false once `deadline` has passed; time_point::max() means no
/// deadline. The timed waits are built on this, but report a timeout as an error. Signals do not
/// end the wait.
[[nodiscard]] result<bool> wait_readable_until(int fd, library_clock::time_point deadline);
[[nodiscard]] result<bool> wait_readable(int fd, std::optional<std::chrono::milliseconds> timeout);

/// Calls `try_get`, which returns result<optional<Event>>, until it returns an event. After
/// `timeout` the error is `timed_out(timeout)` (see timed_out_error()).
///
/// Several threads may wait for one descriptor: a thread whose event another one took keeps
/// waiting.
template <class TryGet, std::invocable<std::chrono::milliseconds> TimedOut>
[[nodiscard]] auto wait_for_event(int fd, std::optional<std::chrono::milliseconds> timeout,
                                  TryGet try_get, TimedOut timed_out)
    -> result<typename decltype(try_get())::value_type::value_type> {
  const auto deadline = detail::wait_end(timeout);
  for (;;) {
    auto event = try_get();
    if (!event) return std::move(event).error();
    if (auto& found = *event) return *std::move(found);
    if (timeout && library_clock::now() >= deadline) return timed_out(*timeout);
    RDMAXX_TRY(wait_readable_until(fd, deadline));
  }
}

/// Makes reads of `fd` return EAGAIN instead of blocking.
[[nodiscard]] result<void> set_nonblocking(int fd);

}  // namespace RDMAXX_NAMESPACE
