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
[[nodiscard]] std::chrono::steady_clock::time_point deadline_after(
    std::chrono::milliseconds timeout) noexcept;

/// True when `fd` is readable, false when the time is over. Signals do not end the wait.
[[nodiscard]] result<bool> wait_readable(int fd, std::optional<std::chrono::milliseconds> timeout);

/// Calls `try_get`, which returns result<optional<Event>>, until it gives an event or the time is
/// over.
///
/// Several threads may wait for one descriptor: whoever finds the event taken waits on.
template <class TryGet>
[[nodiscard]] auto wait_for_event(int fd, std::optional<std::chrono::milliseconds> timeout,
                                  TryGet try_get) -> decltype(try_get()) {
  const auto deadline = deadline_after(timeout.value_or(std::chrono::milliseconds::max()));
  for (;;) {
    auto event = try_get();
    if (!event.has_value() || event->has_value()) return event;
    auto left = timeout;
    if (timeout) {
      const auto now = library_clock::now();
      if (now >= deadline) return event;
      left = std::chrono::ceil<std::chrono::milliseconds>(deadline - now);
    }
    RDMAXX_TRY(wait_readable(fd, left));
  }
}

/// Makes reads of `fd` return EAGAIN instead of blocking.
[[nodiscard]] result<void> set_nonblocking(int fd);

}  // namespace RDMAXX_NAMESPACE
