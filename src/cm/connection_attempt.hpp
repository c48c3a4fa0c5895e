#pragma once

// connection_attempt: an identifier on its way to a connection. It does what connection_steps says
// and never waits itself: its driver waits for fd() until deadline(), and calls advance().
//
// The identifier has a channel of its own. Lifetime: move-only; the destructor ends the attempt.
// Threads: one at a time.

#include <chrono>
#include <optional>
#include <utility>

#include <rdmaxx/cm/cm_event.hpp>
#include <rdmaxx/cm/cm_id.hpp>
#include <rdmaxx/cm/connection.hpp>
#include <rdmaxx/cm/connection_parameters.hpp>
#include <rdmaxx/cm/connection_steps.hpp>
#include <rdmaxx/cm/socket_address.hpp>
#include <rdmaxx/core/clock.hpp>
#include <rdmaxx/core/result.hpp>

namespace RDMAXX_NAMESPACE::detail {

class connection_attempt {
 public:
  using time_point = library_clock::time_point;

  /// What the steps need; the memory of private_data must stay valid until start() has returned.
  struct inputs {
    socket_address source{};
    socket_address peer{};
    const cm_qp_config* qp = nullptr;
    const connection_parameters* parameters = nullptr;
  };

  connection_attempt(cm_id id, connection_steps steps, std::chrono::milliseconds timeout);

  /// Starts the first step.
  [[nodiscard]] result<void> start(const inputs& given);
  /// Handles pending events. True when the attempt has succeeded; an error says why it failed.
  [[nodiscard]] result<bool> advance(const inputs& given);
  /// Drives it to the end.
  [[nodiscard]] result<void> finish(const inputs& given);

  [[nodiscard]] int fd() const noexcept { return id_.channel().fd(); }
  [[nodiscard]] time_point deadline() const noexcept { return deadline_; }
  [[nodiscard]] const cm_id& id() const noexcept { return id_; }
  [[nodiscard]] const connection_steps& steps() const noexcept { return steps_; }
  /// After success.
  [[nodiscard]] cm_id release() && { return std::move(id_); }
  [[nodiscard]] cm::connection connected() && {
    auto event = std::exchange(last_, std::nullopt);
    return {std::move(id_), *event};  // NOLINT(*-optional-access): only after success
  }

 private:
  [[nodiscard]] result<void> begin(connection_action action, const inputs& given);

  cm_id id_;
  connection_steps steps_;
  std::chrono::milliseconds timeout_;
  time_point deadline_;
  std::optional<cm_event> last_{};  ///< that ended the last step
};

}  // namespace RDMAXX_NAMESPACE::detail
