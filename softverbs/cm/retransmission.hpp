// When a message that waits for its answer is sent again (12.9). Policy without I/O: the caller
// passes the time in and sends what it is given.
//
// A message is repeated after 0.2 s, 0.4 s and so on up to every 4.3 s, fifteen times. That is
// sooner than a peer has to answer, and does no harm.
//
// A request that finds no listener on this host is sent again every 5 ms, ten times in all:
// programs listen anew for each connection, and their peers count on the time that a network takes.
#pragma once

#include <cstdint>
#include <optional>

#include <engine/clock.hpp>
#include <wire/cm_message.hpp>

namespace softverbs::cm {

class retransmission {
 public:
  static constexpr std::uint8_t most_repetitions = 15;
  static constexpr engine::clock::duration first_interval = std::chrono::milliseconds(200);
  static constexpr engine::clock::duration longest_interval = std::chrono::milliseconds(4300);
  static constexpr engine::clock::duration between_deliveries = std::chrono::milliseconds(5);

  static constexpr unsigned most_deliveries = 10;

  /// The caller sends the message now.
  void start(const wire::cm_message& message, engine::time_point now);
  void stop();

  /// The message to send again. Nothing if it is not due, or if it has been sent often enough: then
  /// message() is empty.
  [[nodiscard]] std::optional<wire::cm_message> on_timer(engine::time_point now);
  /// The message once more, because the peer asked for it. The schedule stays as it is.
  [[nodiscard]] const wire::cm_message& resend() {
    first_sending_ = false;
    return *message_;
  }
  /// The message found no receiver on this host. False if that is a reason to give up: it never
  /// found one.
  [[nodiscard]] bool on_undelivered(engine::time_point now);
  /// The peer asked for this much time (12.6.6), as an exponent: 4.096 µs · 2^service_timeout.
  void postpone(engine::time_point now, unsigned service_timeout);

  /// The message whose answer is waited for, if there is one.
  [[nodiscard]] const std::optional<wire::cm_message>& message() const noexcept { return message_; }
  /// True until the message is sent again for the first time.
  [[nodiscard]] bool is_first_sending() const noexcept { return first_sending_; }
  [[nodiscard]] engine::time_point due() const noexcept { return due_; }

 private:
  std::optional<wire::cm_message> message_;
  engine::time_point due_ = engine::never;
  engine::clock::duration interval_{};
  unsigned repetitions_left_ = 0;
  unsigned deliveries_left_ = 0;  ///< 0 as soon as it is known that a process got the message
  bool undelivered_ = false;
  bool first_sending_ = false;
};

}  // namespace softverbs::cm
