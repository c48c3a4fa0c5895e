#include <engine/multicast_group.hpp>

#include <algorithm>
#include <cerrno>
#include <span>
#include <utility>

#include <engine/packet_delivery.hpp>
#include <sys/epoll.h>
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

bool multicast_group::receive(receive_state& state, std::uint32_t /*events*/) {
  const auto trains = state.buffers.receive(*socket_);
  for (const auto& train : trains) {
    packet_delivery into({.flow = {.source = train.source,
                                   .destination = socket_->own_address(),
                                   .source_port = train.source_port,
                                   .destination_port = wire::roce_udp_port},
                          .came = inbound::path::roce_port});
    packet_delivery::for_each_packet(
        train.bytes, train.segment_bytes,
        [&](std::span<const std::byte> datagram) { into.deliver_to_group(datagram, members_); });
  }
  if (!trains.empty()) state.busiest = this;
  return !trains.empty();
}

int multicast_groups::attach(const std::shared_ptr<endpoint>& who, const net::address& group,
                             unsigned netdev_index, bool& added) {
  auto& known = groups_[group];
  if (known == nullptr) {
    known = multicast_group::join(group, netdev_index);
    if (known == nullptr) {
      const int failure = errno;
      groups_.erase(group);
      return failure;
    }
    sources_.add(known->fd(), *known, EPOLLIN);
  }
  added = known->attach(who);
  return 0;
}

bool multicast_groups::detach(const endpoint& who, const net::address& group,
                              receive_state& state) {
  const auto known = groups_.find(group);
  if (known == groups_.end() || !known->second->detach(who)) return false;
  if (known->second->is_empty()) {
    sources_.remove(known->second->fd());
    groups_.erase(known);
    state.busiest = nullptr;
  }
  return true;
}

}  // namespace softverbs::engine
