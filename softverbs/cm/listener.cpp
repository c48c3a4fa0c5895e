#include <cm/listener.hpp>

#include <cstdint>
#include <memory>

#include <cm/cm_id.hpp>
#include <cm/messages.hpp>
#include <engine/netdev_port.hpp>

namespace softverbs::cm {

int listener::listen(int backlog) {
  constexpr int most = 1024;
  auto& address = id_.address;
  if (const int failure = address.start_listening()) return failure;
  backlog_left_ = backlog <= 0 || backlog > most ? most : backlog;
  id_.manager.listen(*address.reservation(), id_);
  const auto& own = address.both().own;
  auto* const only = own.is_loopback() ? device_with(own) : address.device();
  // Requests from other hosts arrive at UDP port 4791.
  for (auto* const each : local_devices()) {
    if (own.is_any() || each == only) each->place->ports().open_roce_ports();
  }
  if (const auto port = only != nullptr ? only->place->ports().management_port() : std::uint16_t{0})
    id_.manager.liveness.announce(own, port);
  return 0;
}

void listener::on_request(const engine::management_datagram& datagram) {
  if (backlog_left_ == 0) return;
  auto* const device = device_with(datagram.destination);
  if (device == nullptr) return;
  auto made =
      std::make_unique<cm_id>(id_.manager, id_.events.channel(), id_.context, id_.ps, id_.qp_type);
  if (!made->receive_request(datagram, *device, id_.address.both().own_port)) return;
  const auto& message = datagram.message;
  auto& event = made->events.make(RDMA_CM_EVENT_CONNECT_REQUEST);
  event.listen_id = &id_;
  event.owner = &id_;  // until the user has it, it belongs to the listener
  if (!made->is_datagram()) {
    put_terms(event, message);
    event.param.conn.retry_count = message.retry_count;
  }
  put_private_data(event, message, ip_header_bytes);
  id_.events.raise(event);
  static_cast<void>(made.release());
  --backlog_left_;
}

}  // namespace softverbs::cm
