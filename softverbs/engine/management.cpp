#include <engine/management.hpp>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <optional>

#include <base/descriptor.hpp>
#include <base/log.hpp>
#include <engine/handoff_socket.hpp>
#include <engine/netdev_port.hpp>
#include <engine/sender.hpp>
#include <fmt/format.h>
#include <net/netdev.hpp>
#include <unistd.h>

namespace softverbs::engine {
namespace {

using wire::cm_kind;

std::atomic<management_handler> handler_of_process = nullptr;
std::atomic<data_handler> data_handler_of_process = nullptr;

/// The port of the process whose comm id a message is addressed to.
std::uint16_t port_of(const wire::cm_message& message) {
  const auto id = message.kind == cm_kind::sidr_rep ? message.local_id : message.remote_id;
  return static_cast<std::uint16_t>(id >> 16U);
}

/// A socket to the process of this host that the message is for, if there is one.
descriptor neighbour_for(const wire::cm_message& message, const net::address& to) {
  if (!wire::is_for_service(message)) return handoff_socket::connect_to(to, port_of(message));
  auto specific = handoff_socket::connect_to(service_name(message.service_id, to));
  if (specific) return specific;
  return handoff_socket::connect_to(
      service_name(message.service_id, net::address::any(to.is_ipv4())));
}

wire::headers management_header() {
  static std::atomic<std::uint32_t> next_psn = 0;
  return {.service = wire::transport::ud,
          .op = wire::operation::send_only,
          .destination_qpn = wire::management_qpn,
          .psn = next_psn.fetch_add(1, std::memory_order_relaxed) & wire::psn_mask,
          .qkey = wire::management_qkey,
          .source_qpn = wire::management_qpn};
}

}  // namespace

void set_management_handler(management_handler handler) noexcept { handler_of_process = handler; }

void set_data_handler(data_handler handler) noexcept { data_handler_of_process = handler; }

void first_data_came(std::uint32_t qpn) {
  if (const auto handler = data_handler_of_process.load()) handler(qpn);
}

abstract_name service_name(std::uint64_t service_id, const net::address& own) {
  return abstract_name(fmt::format("softverbs/service/{:x}/{}", service_id, own.text()));
}

int send_management(netdev_port& from, const net::address& own, const net::address& to,
                    const wire::cm_message& message) {
  const auto* const socket = from.ports().management_socket(own);
  if (socket == nullptr) return EADDRNOTAVAIL;
  if (from.outages().is_frozen() || from.outages().port_is_down()) return 0;  // lost
  descriptor neighbour;
  route path;
  path.place = &from;
  path.flow = {.source = own,
               .destination = to,
               .source_port = socket->port(),
               .destination_port = wire::roce_udp_port};
  path.socket = socket;
  if (net::is_local(to)) {
    neighbour = neighbour_for(message, to);
    if (!neighbour) return ECONNREFUSED;
    if (wire::is_for_service(message)) {
      path.handoff_fd = neighbour.get();
    } else {
      path.flow.destination_port = port_of(message);  // somebody is there
    }
  } else if (const int failure = from.ports().open_roce_port(own)) {
    return failure;
  }
  path.to_bytes = to.to_sockaddr(path.flow.destination_port, from.device().index, path.to);
  const auto datagram = wire::encode(message);
  {
    packet_origin manager{.name = {.qpn = wire::management_qpn}, .held = {}};
    sender out(path, manager);
    const iovec whole{.iov_base = const_cast<std::byte*>(datagram.data()),
                      .iov_len = datagram.size()};
    out.add(management_header(), {&whole, 1});
  }
  return 0;
}

void dispatch_management(netdev_port& place, const wire::flow& flow,
                         std::span<const std::byte> packets, std::size_t segment_bytes) {
  while (!packets.empty()) {
    const auto datagram = packets.first(std::min(packets.size(), segment_bytes));
    packets = packets.subspan(datagram.size());
    const auto packet = wire::intact_packet(flow, datagram);
    const auto message = packet ? wire::decode_cm(packet->payload) : std::nullopt;
    if (!message) continue;
    // A withdrawal from another host names no service. This process looks whether it knows the
    // request; any other finds out when it answers.
    if (wire::withdraws_request(*message) ||
        (!wire::is_for_service(*message) && holds_port(flow.destination, port_of(*message)))) {
      receive_management(flow, *packet, management_datagram::arrival::roce_port);
      continue;
    }
    const auto neighbour = neighbour_for(*message, flow.destination);
    if (neighbour) {
      const iovec whole{.iov_base = const_cast<std::byte*>(datagram.data()),
                        .iov_len = datagram.size()};
      static_cast<void>(handoff_socket::send(neighbour.get(), flow, {&whole, 1}, datagram.size()));
    } else if (const auto answer = wire::answer_without_receiver(*message)) {
      static_cast<void>(send_management(place, flow.destination, flow.source, *answer));
    }
  }
}

void receive_management(const wire::flow& flow, const wire::packet& packet,
                        management_datagram::arrival arrived_by) {
  const auto& header = packet.header;
  if (header.service != wire::transport::ud || header.qkey != wire::management_qkey) return;
  const auto message = wire::decode_cm(packet.payload);
  const auto handler = handler_of_process.load();
  if (!message || handler == nullptr) return;
  handler({.message = *message,
           .source = flow.source,
           .destination = flow.destination,
           .arrived_by = arrived_by,
           .source_port = flow.source_port});
}

}  // namespace softverbs::engine
