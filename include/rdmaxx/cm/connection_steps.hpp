#pragma once

// connection_steps: the state machine that leads from an address, or from a peer's request, to a
// connection. It does no I/O: an event in, the next action out.
//
//   auto steps = connection_steps::to_connect();
//   auto action = steps.start();
//   for (;;) {
//     switch (action) {
//       case connection_action::resolve_addr: begin that with cm_id::resolve_addr(); break;
//       …
//       case connection_action::wait: break;
//       case connection_action::done: return connection;
//       case connection_action::fail: return steps.failure();
//     }
//     wait for an event of the identifier, or for the deadline, then
//     action = steps.on_event(event.type(), event.outcome());
//   }
//
// cm::connect(), cm::resolve(), cm::listener and connection_request drive it and wait with poll(2);
// a coroutine drives it and waits with its reactor.
//
// A value; it knows no identifier, no clock and no descriptor. Threads: one at a time.

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include <rdmaxx/cm/cm_event.hpp>
#include <rdmaxx/core/error.hpp>
#include <rdmaxx/core/result.hpp>

namespace RDMAXX_NAMESPACE {

/// What the driver of a connection_steps does next. The first four only start something; an event
/// reports the outcome.
enum class connection_action : std::uint8_t {
  resolve_addr,   ///< cm_id::resolve_addr()
  resolve_route,  ///< cm_id::resolve_route()
  connect,        ///< a queue pair, if there is none, and cm_id::connect()
  accept,         ///< a queue pair, if there is none, and cm_id::accept()
  wait,           ///< nothing, until the next event
  done,
  fail,  ///< failure() says why
};
[[nodiscard]] std::string_view describe(connection_action action) noexcept;

class connection_steps {
 public:
  /// Up to an identifier that knows its device and the route.
  [[nodiscard]] static connection_steps to_resolve() noexcept;
  /// All the way from an address.
  [[nodiscard]] static connection_steps to_connect() noexcept;
  /// From an identifier that knows its route.
  [[nodiscard]] static connection_steps from_resolved() noexcept;
  /// From a peer's request. A failure after it has been answered has category peer, and is never
  /// ETIMEDOUT, which is reserved for "no connection in time".
  [[nodiscard]] static connection_steps to_accept() noexcept;
  /// For an operation that has already been started: this event is its success.
  [[nodiscard]] static connection_steps awaiting(cm_event_type event) noexcept;

  /// The first action.
  [[nodiscard]] connection_action start() noexcept;
  /// The action after an event of the identifier: `wait`, unless the event ends the current step.
  [[nodiscard]] connection_action on_event(cm_event_type type, const result<void>& outcome);
  /// The action could not be started.
  [[nodiscard]] connection_action on_refusal(const error& why);
  /// The deadline has passed; the error reports `waited`.
  [[nodiscard]] connection_action on_deadline(std::chrono::milliseconds waited);

  /// The event that ends the current step.
  [[nodiscard]] cm_event_type awaited() const noexcept;
  [[nodiscard]] bool is_over() const noexcept { return failure_ || next_ == last_; }
  /// Only after connection_action::fail.
  [[nodiscard]] const error& failure() const noexcept {
    return *failure_;  // NOLINT(*-optional-access)
  }

 private:
  connection_steps(std::uint8_t first, std::uint8_t last) noexcept : next_(first), last_(last) {}

  [[nodiscard]] connection_action fail(const error& why);

  std::uint8_t next_;  ///< the current step
  std::uint8_t last_;  ///< one past the last step
  bool is_passive_ = false;
  std::optional<cm_event_type> only_{};  ///< of a single wait
  std::optional<error> failure_{};
};
[[nodiscard]] std::string describe(const connection_steps& steps);

}  // namespace RDMAXX_NAMESPACE
