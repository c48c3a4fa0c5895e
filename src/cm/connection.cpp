#include <rdmaxx/cm/connection.hpp>

#include <utility>

#include <fmt/format.h>

#include "cm/awaited_event.hpp"

namespace rdmaxx::inline v0::cm {

connection::connection(cm_id id, const cm_event& established)
    : id_(std::move(id)),
      peer_data_(established.private_data().begin(), established.private_data().end()) {}

result<bool> connection::wait_disconnected(std::optional<std::chrono::milliseconds> timeout) {
  const auto end = deadline_after(timeout.value_or(std::chrono::milliseconds::max()));
  while (!down_) {
    RDMAXX_TRY(const auto event,
               id_.channel().get_event(timeout ? std::optional(detail::time_until(end)) : forever));
    if (!event) return false;
    if (!event->concerns(id_)) continue;
    if (event->type() == cm_event_type::disconnected) {
      // The answer to the peer, if it was the peer; else it fails, and nothing is lost.
      (void)id_.disconnect();
      down_ = true;
    }
    if (event->type() == cm_event_type::device_removal) down_ = true;
  }
  return true;
}

std::string describe(const connection& connected) {
  if (!connected) return "connection (empty)";
  return fmt::format("connection of {}", describe(connected.id()));
}

}  // namespace rdmaxx::inline v0::cm
