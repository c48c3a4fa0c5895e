#include <engine/multicast_group.hpp>

#include <algorithm>
#include <utility>

#include <engine/capture.hpp>
#include <engine/queue_pair.hpp>
#include <wire/packet.hpp>

namespace softverbs::engine {

std::unique_ptr<multicast_group> multicast_group::join(const net::address& group,
                                                       unsigned netdev_index) {
  auto socket = net::udp_socket::join(group, wire::roce_udp_port, netdev_index);
  if (socket == nullptr) return nullptr;
  return std::unique_ptr<multicast_group>(new multicast_group(std::move(socket)));
}

bool multicast_group::attach(std::shared_ptr<endpoint> who) {
  if (std::ranges::find(members_, who) != members_.end()) return false;
  members_.push_back(std::move(who));
  return true;
}

bool multicast_group::detach(const endpoint& who) {
  return std::erase_if(members_, [&](const auto& each) { return each.get() == &who; }) > 0;
}

bool multicast_group::receive(net::receive_buffers& buffers) const {
  const auto trains = buffers.receive(*socket_);
  for (const auto& train : trains) {
    const wire::flow flow{.source = train.source,
                          .destination = socket_->own_address(),
                          .source_port = train.source_port,
                          .destination_port = wire::roce_udp_port};
    for (auto rest = train.bytes; !rest.empty();) {
      const auto datagram = rest.first(std::min(rest.size(), train.segment_bytes));
      rest = rest.subspan(datagram.size());
      deliver(flow, datagram);
    }
  }
  return !trains.empty();
}

void multicast_group::deliver(const wire::flow& flow, std::span<const std::byte> datagram) const {
  const auto packet = wire::intact_packet(flow, datagram);
  if (!packet || packet->header.destination_qpn != wire::multicast_qpn) return;
  capture_received(flow, datagram);
  const inbound in{.packet = *packet,
                   .source = flow.source,
                   .destination = flow.destination,
                   .source_port = flow.source_port,
                   .came = inbound::way::well_known_port};
  for (const auto& member : members_) {
    const std::lock_guard lock(member->mutex);
    if (member->owner == nullptr) continue;
    member->owner->receive(in);
    member->owner->after_receiving(false);
  }
}

}  // namespace softverbs::engine
