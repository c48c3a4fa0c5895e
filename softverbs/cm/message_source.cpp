#include <cm/message_source.hpp>

namespace softverbs::cm {

bool is_believable(const engine::management_datagram& datagram, bool source_is_local) {
  using arrival = engine::management_datagram::arrival;
  // Other hosts send to UDP port 4791, and a service's handoff socket is for requests alone.
  if (datagram.arrived_by == arrival::own_port && !source_is_local) return false;
  if (datagram.arrived_by == arrival::service && !wire::is_for_service(datagram.message))
    return false;
  if (!source_is_local) return true;
  // These name no comm id of their sender. The transaction id, which only the receiver of the
  // request knows, vouches for them: see connection::on_message() and sidr_exchange::on_message().
  const auto& message = datagram.message;
  const bool without_comm_id = message.kind == wire::cm_kind::rej && message.local_id == 0;
  if (message.kind == wire::cm_kind::sidr_rep || without_comm_id) return true;
  return message.local_id >> 16U == datagram.source_port;
}

}  // namespace softverbs::cm
