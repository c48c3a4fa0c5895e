#include <cm/message_source.hpp>

namespace softverbs::cm {

bool is_believable(const engine::management_datagram& datagram, bool source_is_local) {
  using way = engine::management_datagram::way;
  if (datagram.came == way::this_process) return true;
  // Other hosts send to the well-known port. And only those who ask write to a service.
  if (datagram.came == way::own_port && !source_is_local) return false;
  if (datagram.came == way::service && !engine::asks_for_service(datagram.message)) return false;
  if (!source_is_local) return true;
  // These have no identifier of their sender. The number of the transaction, which only the
  // receiver of the request knows, stands for it: see identifier::on_message().
  const auto& message = datagram.message;
  const bool of_nobody = message.kind == wire::cm_kind::rejection && message.local_id == 0;
  if (message.kind == wire::cm_kind::sidr_reply || of_nobody) return true;
  return message.local_id >> 16U == datagram.source_port;
}

}  // namespace softverbs::cm
