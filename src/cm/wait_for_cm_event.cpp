#include "cm/wait_for_cm_event.hpp"

#include <rdmaxx/cm/connection_steps.hpp>

namespace RDMAXX_NAMESPACE::detail {

result<cm_event> wait_for_cm_event(const cm_id& id, cm_event_type wanted, deadline end) {
  const auto patience = time_until(end);
  auto steps = connection_steps::awaiting(wanted);
  for (auto action = steps.start();;) {
    if (action == connection_action::fail) return steps.failure();
    auto event = id.channel().get_event(time_until(end));
    if (!event) {
      if (event.error() != std::errc::timed_out) return event.error();
      action = steps.on_deadline(patience);
    } else if (event->concerns(id)) {
      action = steps.on_event(event->type(), event->outcome());
      if (action == connection_action::done) return event;
    }
  }
}

}  // namespace RDMAXX_NAMESPACE::detail
