#include <rdmaxx/cm/connection_steps.hpp>

#include <array>
#include <cerrno>

#include <fmt/format.h>

#include "cm/peer_error.hpp"

namespace RDMAXX_NAMESPACE {

namespace {

struct step {
  connection_action action;
  cm_event_type success;
};

/// In the order of the active side; the passive side has a single step.
constexpr std::array steps_in_order{
    step{connection_action::resolve_addr, cm_event_type::addr_resolved},
    step{connection_action::resolve_route, cm_event_type::route_resolved},
    step{connection_action::connect, cm_event_type::established},
    step{connection_action::accept, cm_event_type::established},
};
constexpr std::uint8_t address = 0;
constexpr std::uint8_t connecting = 2;
constexpr std::uint8_t accepting = 3;

}  // namespace

std::string_view describe(connection_action action) noexcept {
  switch (action) {
    case connection_action::resolve_addr:
      return "resolve_addr";
    case connection_action::resolve_route:
      return "resolve_route";
    case connection_action::connect:
      return "connect";
    case connection_action::accept:
      return "accept";
    case connection_action::wait:
      return "wait";
    case connection_action::done:
      return "done";
    case connection_action::fail:
      return "fail";
  }
  return "unknown";
}

connection_steps connection_steps::to_resolve() noexcept { return {address, connecting}; }
connection_steps connection_steps::to_connect() noexcept { return {address, accepting}; }
connection_steps connection_steps::from_resolved() noexcept { return {connecting, accepting}; }

connection_steps connection_steps::to_accept() noexcept {
  connection_steps passive(accepting, accepting + 1);
  passive.is_passive_ = true;
  return passive;
}

connection_steps connection_steps::awaiting(cm_event_type event) noexcept {
  connection_steps single(address, address + 1);
  single.only_ = event;
  return single;
}

cm_event_type connection_steps::awaited() const noexcept {
  if (only_) return *only_;
  return steps_in_order.at(next_ < last_ ? next_ : last_ - 1U).success;
}

connection_action connection_steps::start() noexcept {
  return only_ ? connection_action::wait : steps_in_order.at(next_).action;
}

connection_action connection_steps::fail(const error& why) {
  failure_ = is_passive_ ? detail::as_peer_error(why) : why;
  return connection_action::fail;
}

connection_action connection_steps::on_event(cm_event_type type, const result<void>& outcome) {
  if (failure_) return connection_action::fail;
  if (next_ == last_) return connection_action::done;
  if (!outcome) return fail(outcome.error());
  const auto waiting = [this] { return fmt::format("waiting for {}", describe(awaited())); };
  if (type == awaited()) {
    ++next_;
    return next_ == last_ ? connection_action::done : steps_in_order.at(next_).action;
  }
  switch (type) {
    case cm_event_type::disconnected:
      return fail(errno_error(waiting(), ECONNRESET, "the peer closed the connection"));
    case cm_event_type::device_removal:
      return fail(errno_error(waiting(), ENODEV));
    default:
      return connection_action::wait;  // addr_change, timewait_exit: end no step
  }
}

connection_action connection_steps::on_refusal(const error& why) {
  failure_ = why;  // this side's own failure, not the peer's
  return connection_action::fail;
}

connection_action connection_steps::on_deadline(std::chrono::milliseconds waited) {
  if (failure_) return connection_action::fail;
  if (next_ == last_) return connection_action::done;
  return fail(
      timed_out_error(only_ ? "rdma_get_cm_event" : describe(steps_in_order.at(next_).action),
                      waited, describe(awaited())));
}

std::string describe(const connection_steps& steps) {
  if (!steps.is_over()) return fmt::format("waiting for {}", describe(steps.awaited()));
  return "over";
}

}  // namespace RDMAXX_NAMESPACE
