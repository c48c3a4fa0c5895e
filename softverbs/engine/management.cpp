#include <engine/management.hpp>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <optional>

#include <base/descriptor.hpp>
#include <base/log.hpp>
#include <engine/mailbox.hpp>
#include <engine/sender.hpp>
#include <engine/station.hpp>
#include <fmt/format.h>
#include <net/netdev.hpp>
#include <unistd.h>

namespace softverbs::engine {
namespace {

using wire::cm_kind;

std::atomic<management_handler> handler_of_process = nullptr;
std::atomic<data_handler> data_handler_of_process = nullptr;

/// The port of the process that a message answers to.
std::uint16_t port_of(const wire::cm_message& message) {
  const auto id = message.kind == cm_kind::sidr_reply ? message.local_id : message.remote_id;
  return static_cast<std::uint16_t>(id >> 16U);
}

/// A socket towards the process on this host that it is for, if there is one.
descriptor neighbour_for(const wire::cm_message& message, const net::address& to) {
  if (!asks_for_service(message)) return mailbox::connect_to(to, port_of(message));
  auto specific = mailbox::connect_to(service_name(message.service_id, to));
  if (specific) return specific;
  return mailbox::connect_to(service_name(message.service_id, net::address::any(to.is_ipv4())));
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

bool asks_for_service(const wire::cm_message& message) {
  // A request that is taken back has to find its way as the request did.
  const bool taken_back = message.kind == cm_kind::rejection && message.remote_id == 0;
  return message.kind == cm_kind::request || message.kind == cm_kind::sidr_request || taken_back;
}

void set_management_handler(management_handler handler) noexcept { handler_of_process = handler; }

void set_data_handler(data_handler handler) noexcept { data_handler_of_process = handler; }

void first_data_came(std::uint32_t qpn) {
  if (const auto handler = data_handler_of_process.load()) handler(qpn);
}

abstract_name service_name(std::uint64_t service_id, const net::address& own) {
  return abstract_name(fmt::format("softverbs/service/{:x}/{}", service_id, own.text()));
}

std::optional<wire::cm_message> answer_of_nobody(const wire::cm_message& message) {
  wire::cm_message answer{.transaction = message.transaction,
                          .local_id = message.remote_id,
                          .remote_id = message.local_id};
  switch (message.kind) {
    case cm_kind::request:
      answer.kind = cm_kind::rejection;
      answer.answered = wire::cm_answered::request;
      answer.reason = static_cast<std::uint16_t>(wire::reject_reason::invalid_service);
      return answer;
    case cm_kind::reply:
      answer.kind = cm_kind::rejection;
      answer.answered = wire::cm_answered::reply;
      answer.reason = static_cast<std::uint16_t>(wire::reject_reason::invalid_id);
      return answer;
    case cm_kind::disconnect_request:
      answer.kind = cm_kind::disconnect_reply;
      return answer;
    case cm_kind::sidr_request:
      answer.kind = cm_kind::sidr_reply;
      answer.local_id = message.local_id;
      answer.status = wire::sidr_status::unsupported;
      answer.service_id = message.service_id;
      return answer;
    default:
      return std::nullopt;
  }
}

int send_management(station& from, const net::address& own, const net::address& to,
                    const wire::cm_message& message) {
  const auto* const socket = from.management_socket(own);
  if (socket == nullptr) return EADDRNOTAVAIL;
  if (from.is_frozen()) return 0;  // lost
  descriptor neighbour;
  route way;
  way.place = &from;
  way.flow = {.source = own,
              .destination = to,
              .source_port = socket->port(),
              .destination_port = wire::roce_udp_port};
  way.socket = socket;
  if (net::is_local(to)) {
    neighbour = neighbour_for(message, to);
    if (!neighbour) return ECONNREFUSED;
    if (asks_for_service(message)) {
      way.letters = neighbour.get();
    } else {
      way.flow.destination_port = port_of(message);  // somebody is there
    }
  } else if (const int failure = from.open_well_known_port(own)) {
    return failure;
  }
  way.to_bytes = to.to_sockaddr(way.flow.destination_port, from.device().index, way.to);
  const auto datagram = wire::encode(message);
  {
    packet_origin manager{.name = {.qpn = wire::management_qpn}, .held = {}};
    sender out(way, manager);
    const iovec whole{.iov_base = const_cast<std::byte*>(datagram.data()),
                      .iov_len = datagram.size()};
    out.add(management_header(), {&whole, 1});
  }
  return 0;
}

void sort_management(station& place, const wire::flow& flow, std::span<const std::byte> packets,
                     std::size_t segment_bytes) {
  while (!packets.empty()) {
    const auto datagram = packets.first(std::min(packets.size(), segment_bytes));
    packets = packets.subspan(datagram.size());
    const auto packet = wire::intact_packet(flow, datagram);
    const auto message = packet ? wire::decode_cm(packet->payload) : std::nullopt;
    if (!message) continue;
    // It names no service: only this process can look whether it knows the request. Others find out
    // when they answer it.
    const bool taken_back = message->kind == cm_kind::rejection && message->remote_id == 0;
    if (taken_back ||
        (!asks_for_service(*message) && holds_port(flow.destination, port_of(*message)))) {
      receive_management(flow, *packet, management_datagram::way::well_known_port);
      continue;
    }
    const auto neighbour = neighbour_for(*message, flow.destination);
    if (neighbour) {
      const iovec whole{.iov_base = const_cast<std::byte*>(datagram.data()),
                        .iov_len = datagram.size()};
      static_cast<void>(mailbox::hand_on(neighbour.get(), flow, {&whole, 1}, datagram.size()));
    } else if (const auto answer = answer_of_nobody(*message)) {
      static_cast<void>(send_management(place, flow.destination, flow.source, *answer));
    }
  }
}

void receive_management(const wire::flow& flow, const wire::packet& packet,
                        management_datagram::way came) {
  const auto& header = packet.header;
  if (header.service != wire::transport::ud || header.qkey != wire::management_qkey) return;
  const auto message = wire::decode_cm(packet.payload);
  const auto handler = handler_of_process.load();
  if (!message || handler == nullptr) return;
  handler({.message = *message,
           .source = flow.source,
           .destination = flow.destination,
           .came = came,
           .source_port = flow.source_port});
}

}  // namespace softverbs::engine
