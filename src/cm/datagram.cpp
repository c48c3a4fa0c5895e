#include <rdmaxx/cm/datagram.hpp>

#include <utility>

#include <fmt/format.h>

#include "cm/loopback.hpp"
#include "cm/time_until.hpp"
#include "cm/wait_for_cm_event.hpp"

namespace RDMAXX_NAMESPACE::cm {

namespace {

result<datagram_destination> destination_of(const cm_id& id, const cm_event& event) {
  const auto peer = event.datagram_peer();
  const auto said = event.private_data();
  RDMAXX_TRY(auto ah, id.pd().create_ah(peer.path));
  return datagram_destination{.ah = std::move(ah),
                              .queue_pair = peer.queue_pair,
                              .queue_key = peer.queue_key,
                              .peer_data = {said.begin(), said.end()}};
}

result<void> check_datagram(const cm_id& id, std::string_view operation) {
  if (!is_datagram(id.space()))
    return misuse_error(operation, "the identifier is not of a datagram port space",
                        "create it in port_space::udp");
  if (!id.pd())
    return misuse_error(operation, "the identifier has no queue pair", "call create_qp() first");
  return {};
}

/// For a loopback address, which has no device until it is resolved.
result<void> find_device(const cm_id& id) {
  const auto end = deadline_after(default_timeout);
  RDMAXX_TRY(id.resolve_addr(id.local_address(), detail::time_until(end)));
  RDMAXX_TRY(detail::wait_for_cm_event(id, cm_event_type::addr_resolved, end));
  return {};
}

}  // namespace

result<cm_id> open_datagram(const socket_address& local, const cm_qp_config& config,
                            const cm_id_options& options) {
  RDMAXX_TRY(const auto channel, event_channel::create());
  RDMAXX_TRY(auto id, channel.create_id(port_space::udp));
  RDMAXX_TRY(id.set(options));
  RDMAXX_TRY(id.bind(local));
  if (detail::is_loopback(local)) RDMAXX_TRY(find_device(id));
  RDMAXX_TRY(id.create_qp(config));
  return id;
}

result<datagram_destination> find_datagram_peer(const cm_id& resolved,
                                                const connection_parameters& parameters,
                                                std::chrono::milliseconds timeout) {
  const auto end = deadline_after(timeout);
  RDMAXX_TRY(check_datagram(resolved, "find_datagram_peer"));
  RDMAXX_TRY(resolved.connect(parameters));
  auto event = detail::wait_for_cm_event(resolved, cm_event_type::established, end);
  if (!event)
    return event.error().within(fmt::format("finding {}", describe(resolved.peer_address())));
  return destination_of(resolved, *event);
}

result<datagram_destination> join_multicast(const cm_id& member, const socket_address& group,
                                            multicast_membership kind,
                                            std::chrono::milliseconds timeout) {
  const auto end = deadline_after(timeout);
  RDMAXX_TRY(check_datagram(member, "join_multicast"));
  RDMAXX_TRY(member.join_multicast(group, kind));
  auto event = detail::wait_for_cm_event(member, cm_event_type::multicast_join, end);
  if (!event) return event.error().within(fmt::format("joining {}", describe(group)));
  return destination_of(member, *event);
}

std::string describe(const datagram_destination& destination) {
  return fmt::format("queue pair {:#x} queue key {:#x}, {}", destination.queue_pair.value(),
                     destination.queue_key.value(), describe(destination.ah));
}

}  // namespace RDMAXX_NAMESPACE::cm
