#pragma once

// readiness: waiting for a file descriptor, which is how the library waits for devices and peers.

#include <chrono>
#include <optional>

#include <rdmaxx/core/clock.hpp>
#include <rdmaxx/core/deadline.hpp>
#include <rdmaxx/core/result.hpp>

namespace RDMAXX_NAMESPACE {

/// A wait of this length lasts until the event comes.
inline constexpr std::optional<std::chrono::milliseconds> forever = std::nullopt;

/// `timeout` from now, a year at most (core/deadline.hpp).
[[nodiscard]] library_clock::time_point deadline_after(std::chrono::milliseconds timeout) noexcept;

namespace detail {

/// When a wait of that length is over: time_point::max() is never.
[[nodiscard]] inline library_clock::time_point wait_end(
    std::optional<std::chrono::milliseconds> timeout) noexcept {
  return timeout ? deadline_after(*timeout) : library_clock::time_point::max();
}

}  // namespace detail

/// True when `fd` is readable, false when the time is over; time_point::max() never comes. Signals
/// do not end the wait.
[[nodiscard]] result<bool> wait_readable_until(int fd, library_clock::time_point deadline);
[[nodiscard]] result<bool> wait_readable(int fd, std::optional<std::chrono::milliseconds> timeout);

/// Calls `try_get`, which returns result<optional<Event>>, until it gives an event or the time is
/// over.
///
/// Several threads may wait for one descriptor: whoever finds the event taken waits on.
template <class TryGet>
[[nodiscard]] auto wait_for_event(int fd, std::optional<std::chrono::milliseconds> timeout,
                                  TryGet try_get) -> decltype(try_get()) {
  const auto deadline = detail::wait_end(timeout);
  for (;;) {
    auto event = try_get();
    if (!event.has_value() || event->has_value()) return event;
    if (library_clock::now() >= deadline) return event;
    RDMAXX_TRY(wait_readable_until(fd, deadline));
  }
}

/// Makes reads of `fd` return EAGAIN instead of blocking.
[[nodiscard]] result<void> set_nonblocking(int fd);

}  // namespace RDMAXX_NAMESPACE
