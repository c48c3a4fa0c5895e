// What a state machine of the connection manager (connection.hpp, sidr_exchange.hpp) wants done
// after an input. The driver carries it out in this order: the queue pair, the peer's liveness, the
// timer (the machine's due()), the message, the event. A message that cannot be sent is reported
// back with on_send_failure(), whose step follows.
#pragma once

#include <cstdint>
#include <optional>

#include <wire/cm_message.hpp>

namespace softverbs::cm {

/// What the user is notified of.
enum class protocol_event : std::uint8_t {
  replied,       ///< a REP has arrived: the user may establish the connection
  established,   ///< a connection is ready, or a service is resolved
  rejected,      ///< status: the reason of the REJ
  unreachable,   ///< status: a negative errno, or the status of a SIDR_REP
  disconnected,  ///< status: 0, or a negative errno
  timewait_exit,
};

struct protocol_step {
  struct notification {
    protocol_event event{};
    int status = 0;
    std::optional<wire::cm_message> message{};  ///< that the event is about
  };
  /// Noticing when the process of the peer ends.
  enum class watch : std::uint8_t { unchanged, start, stop };

  int error = 0;  ///< an errno for the caller: the call was refused
  bool fail_queue_pair = false;
  watch peer = watch::unchanged;
  std::optional<wire::cm_message> send{};
  std::optional<notification> notify{};
};

}  // namespace softverbs::cm
