#include <engine/route.hpp>

#include <base/settings.hpp>
#include <engine/netdev_port.hpp>
#include <net/netdev.hpp>

namespace softverbs::engine {
namespace {

// Queue pair numbers of devices of this kind begin with a port; other devices count from 0.
constexpr std::uint32_t lowest_soft_qpn = 1024U << 8;

}  // namespace

std::shared_ptr<route> find_route(netdev_port& place, std::uint32_t own_qpn,
                                  const transport::path_ends& ends, std::uint32_t qpn) {
  auto found = std::make_shared<route>();
  found->place = &place;
  found->socket = place.ports().socket_of(own_qpn, ends.source);
  if (found->socket == nullptr) return nullptr;
  // A number below the ports of this kind belongs to another implementation on this host.
  found->same_host = qpn >= lowest_soft_qpn && net::is_local(ends.destination);
  if (found->same_host) found->in_process = find_in_process(ends.destination, qpn);
  if (found->same_host && found->in_process == nullptr) {
    found->ring =
        place.ring_to(own_qpn, ends.source, ends.destination, static_cast<std::uint16_t>(qpn >> 8));
  }
  const auto port = found->same_host ? static_cast<std::uint16_t>(qpn >> 8) : wire::roce_udp_port;
  found->flow = {.source = ends.source,
                 .destination = ends.destination,
                 .source_port = found->socket->port(),
                 .destination_port = port,
                 .traffic_class = ends.traffic_class};
  found->to_bytes = ends.destination.to_sockaddr(port, place.device().index, found->to);
  found->with_icrc = !found->same_host || settings::get().icrc == icrc_use::always;
  return found;
}

std::shared_ptr<route> recent_routes::find(netdev_port& place, std::uint32_t own_qpn,
                                           const transport::path_ends& ends, std::uint32_t qpn) {
  for (const auto& known : entries_) {
    if (known.found == nullptr || known.qpn != qpn || known.source != ends.source ||
        known.destination != ends.destination ||
        known.found->flow.traffic_class != ends.traffic_class)
      continue;
    // A queue pair of this process that has gone may have a successor of the same number.
    if (known.found->in_process != nullptr && known.found->in_process->closed) break;
    return known.found;
  }
  auto found = find_route(place, own_qpn, ends, qpn);
  entries_[next_++ % entries_.size()] = {
      .source = ends.source, .destination = ends.destination, .qpn = qpn, .found = found};
  return found;
}

}  // namespace softverbs::engine
