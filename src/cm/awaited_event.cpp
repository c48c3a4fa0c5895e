#include "cm/awaited_event.hpp"

#include <cerrno>
#include <string>

#include <fmt/format.h>

namespace rdmaxx::inline v0::detail {

result<cm_event> awaited_event(const cm_id& id, cm_event_type wanted, deadline end) {
  for (;;) {
    RDMAXX_TRY(auto event, id.channel().get_event(time_until(end)));
    if (!event)
      return errno_error(fmt::format("waiting for {}", describe(wanted)), ETIMEDOUT,
                         "the time is over");
    if (!event->concerns(id)) continue;
    RDMAXX_TRY(event->outcome());
    if (event->type() == wanted) return std::move(*event);
    switch (event->type()) {
      case cm_event_type::disconnected:
        return errno_error(fmt::format("waiting for {}", describe(wanted)), ECONNRESET);
      case cm_event_type::device_removal:
        return errno_error(fmt::format("waiting for {}", describe(wanted)), ENODEV);
      default:
        break;  // addr_change, timewait_exit: news, not answers
    }
  }
}

}  // namespace rdmaxx::inline v0::detail
