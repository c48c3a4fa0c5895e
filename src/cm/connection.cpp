#include <rdmaxx/cm/connection.hpp>

#include <array>
#include <cerrno>
#include <utility>

#include <fmt/format.h>
#include <poll.h>

#include <rdmaxx/verbs/completion_channel.hpp>
#include <rdmaxx/verbs/wait_completions.hpp>

namespace RDMAXX_NAMESPACE::cm {

connection::connection(cm_id id, const cm_event& established)
    : id_(std::move(id)),
      peer_data_(established.private_data().begin(), established.private_data().end()) {}

/// Handles the pending events of the connection.
result<void> connection::handle_events() {
  while (!down_) {
    RDMAXX_TRY(const auto event, id_.channel().try_get_event());
    if (!event) break;
    if (!event->concerns(id_)) continue;
    if (event->type() == cm_event_type::disconnected) {
      // Answers the peer if it disconnected first; otherwise this fails, which does no harm.
      (void)id_.disconnect();
      down_ = true;
    }
    if (event->type() == cm_event_type::device_removal) down_ = true;
  }
  return {};
}

result<void> connection::wait_disconnected(std::optional<std::chrono::milliseconds> timeout) {
  const auto end = detail::wait_end(timeout);
  for (;;) {
    RDMAXX_TRY(handle_events());
    if (down_) return {};
    if (timeout && library_clock::now() >= end) {
      return timed_out_error("cm::connection::wait_disconnected", *timeout,
                             fmt::format("{} to disconnect", describe(peer_address())));
    }
    RDMAXX_TRY(wait_readable_until(fd(), end));
  }
}

result<std::span<work_completion>> connection::wait_completions(
    const completion_queue& cq, std::span<work_completion> into,
    std::optional<std::chrono::milliseconds> timeout, std::chrono::microseconds spin) {
  if (!cq.channel()) {
    return misuse_error("wait_completions", "the completion queue has no channel",
                        "create it with one, or let cm_id::create_qp() create it");
  }
  std::array<pollfd, 2> watched{pollfd{.fd = cq.channel().fd(), .events = POLLIN, .revents = 0},
                                pollfd{.fd = fd(), .events = POLLIN, .revents = 0}};
  std::span<work_completion> found;
  const auto poll = [&]() -> result<bool> {
    // In this order, so that requests flushed by the end of the connection are polled before the
    // end is reported.
    RDMAXX_TRY(handle_events());
    RDMAXX_TRY(found, cq.poll(into));
    return !found.empty() || down_;
  };
  const auto sleep = [&](library_clock::time_point until) -> result<void> {
    if (::poll(watched.data(), watched.size(), library_clock::milliseconds_until(until)) < 0 &&
        errno != EINTR) {
      return errno_error("poll", errno);
    }
    return detail::discard_events(cq.channel());
  };
  spin_policy policy(spin);
  RDMAXX_TRY(const bool has_found,
             detail::wait_until_found(
                 detail::wait_end(timeout), policy, poll, [&] { return cq.req_notify(); }, sleep));
  if (!has_found && timeout) {
    return detail::no_completion(*timeout, fmt::format("{} of the connection to {}", describe(cq),
                                                       describe(peer_address())));
  }
  return found;
}

std::string describe(const connection& connected) {
  if (!connected) return "connection (empty)";
  return fmt::format("connection of {}", describe(connected.id()));
}

}  // namespace RDMAXX_NAMESPACE::cm
