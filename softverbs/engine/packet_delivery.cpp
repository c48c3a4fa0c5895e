#include <engine/packet_delivery.hpp>

#include <utility>

#include <engine/capture.hpp>
#include <engine/management.hpp>
#include <engine/process_ports.hpp>
#include <engine/queue_pair.hpp>
#include <wire/packet.hpp>

namespace softverbs::engine {

void packet_delivery::deliver(std::span<const std::byte> datagram) {
  const auto packet = wire::intact_packet(from_.flow, datagram, from_.icrc);
  if (!packet) return;
  capture_received(from_.flow, datagram);
  const bool own_port = from_.came == inbound::path::same_host;
  const auto qpn = packet->header.destination_qpn;
  if (qpn == wire::management_qpn) {
    let_go();
    receive_management(from_.flow, *packet,
                       own_port ? management_datagram::arrival::own_port
                                : management_datagram::arrival::roce_port);
    return;
  }
  if (receiver_ == nullptr || receiver_->qpn != qpn) {
    let_go();
    if (own_port && qpn >> 8 != from_.flow.destination_port) return;
    auto found = find_in_process(from_.flow.destination, qpn);
    if (found == nullptr) return;
    hold(std::move(found));
  }
  give(*packet);
}

void packet_delivery::deliver_to_group(std::span<const std::byte> datagram, endpoints members) {
  const auto packet = wire::intact_packet(from_.flow, datagram, from_.icrc);
  if (!packet || packet->header.destination_qpn != wire::multicast_qpn) return;
  capture_received(from_.flow, datagram);
  for (const auto& member : members) {
    if (receiver_ != member) {
      let_go();
      hold(member);
    }
    give(*packet);
  }
}

void packet_delivery::hold(std::shared_ptr<endpoint> who) {
  receiver_ = std::move(who);
  lock_ = std::unique_lock(receiver_->mutex);
}

void packet_delivery::let_go() {
  if (lock_.owns_lock()) {
    if (receiver_->owner != nullptr) receiver_->owner->after_receiving(from_.called_by_user);
    lock_.unlock();
  }
  receiver_ = nullptr;
}

void packet_delivery::give(const wire::packet& packet) const {
  if (receiver_->owner == nullptr) return;
  receiver_->owner->receive({.packet = packet,
                             .source = from_.flow.source,
                             .destination = from_.flow.destination,
                             .source_port = from_.flow.source_port,
                             .came = from_.came});
}

}  // namespace softverbs::engine
