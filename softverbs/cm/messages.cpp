#include <cm/messages.hpp>

#include <algorithm>
#include <array>
#include <cstring>

#include <cm/retransmission.hpp>
#include <netinet/in.h>

namespace softverbs::cm {
namespace {

// What the kernel's connection manager tells its peers.
constexpr std::uint8_t response_timeout = 20;  // 4.3 s
constexpr std::uint8_t target_ack_delay = 15;
constexpr std::uint8_t most_retries = 7;

/// In front of the user's private data of a request (annex A11).
struct ip_header {
  std::uint8_t version = 0;
  std::uint8_t ip_version = 0;  ///< in the upper half
  std::uint16_t port = 0;
  std::array<std::uint8_t, 16> source{};
  std::array<std::uint8_t, 16> destination{};
};
static_assert(sizeof(ip_header) == ip_header_bytes);

std::array<std::uint8_t, 16> bytes_of(const net::address& address) {
  if (!address.is_ipv4()) return address.raw;
  std::array<std::uint8_t, 16> bytes{};
  std::copy_n(address.raw.begin() + 12, 4, bytes.begin() + 12);
  return bytes;
}

bool put_private_data_at(std::size_t offset, wire::cm_message& message, const void* data,
                         std::size_t bytes) {
  if (offset + bytes > wire::private_bytes(message.kind)) return false;
  if (bytes > 0) std::memcpy(message.private_data.data() + offset, data, bytes);
  return true;
}

bool put_addresses_and_private_data(wire::cm_message& message, const addressing::ends& both,
                                    const rdma_conn_param& wanted) {
  const ip_header header{.ip_version = static_cast<std::uint8_t>(both.own.is_ipv4() ? 0x40 : 0x60),
                         .port = htons(both.own_port),
                         .source = bytes_of(both.own),
                         .destination = bytes_of(both.peer)};
  return put_private_data_at(0, message, &header, sizeof header) &&
         put_private_data_at(sizeof header, message, wanted.private_data, wanted.private_data_len);
}

}  // namespace

bool put_private_data(wire::cm_message& message, const void* data, std::size_t bytes) {
  return put_private_data_at(0, message, data, bytes);
}

std::optional<wire::cm_message> make_request(const rdma_cm_id& id, const addressing& address,
                                             const rdma_conn_param& wanted, const ibv_ece& ece,
                                             const request_ids& ids) {
  const bool is_datagram = id.qp_type == IBV_QPT_UD;
  wire::cm_message message{.kind = is_datagram ? wire::cm_kind::sidr_req : wire::cm_kind::req};
  const auto& both = address.both();
  if (!put_addresses_and_private_data(message, both, wanted)) return std::nullopt;
  message.transaction = ids.transaction;
  message.vendor_id = ece.vendor_id;
  message.vendor_options = ece.options;
  message.local_id = ids.comm_id;
  message.service_id = ids.service_id;
  message.ca_guid = ids.ca_guid;
  message.qpn = id.qp != nullptr ? id.qp->qp_num : wanted.qp_num;
  message.starting_psn = ids.starting_psn;
  message.responder_resources = wanted.responder_resources;
  message.initiator_depth = wanted.initiator_depth;
  message.flow_control = wanted.flow_control != 0;
  message.retry_count = std::min(wanted.retry_count, most_retries);
  message.rnr_retry_count = std::min(wanted.rnr_retry_count, most_retries);
  message.srq = id.qp != nullptr ? id.qp->srq != nullptr : wanted.srq != 0;
  if (id.qp_type == IBV_QPT_XRC_SEND) {
    message.transport_service = 3;
    message.extended_transport = 1;
  }
  message.path_mtu = static_cast<std::uint8_t>(address.path_mtu());
  message.remote_response_timeout = message.local_response_timeout = response_timeout;
  message.max_cm_retries = retransmission::most_repetitions;
  message.local_lid = message.remote_lid = 0xffff;
  message.local_gid = both.own;
  message.remote_gid = both.peer;
  message.packet_rate = 13;
  message.traffic_class = address.chosen().type_of_service;
  message.hop_limit = 64;
  // As the kernel does: one more than what the user chose.
  message.ack_timeout = address.ack_timeout();
  if (address.chosen().ack_timeout)
    message.ack_timeout = std::min<std::uint8_t>(message.ack_timeout + 1, 31);
  return message;
}

std::optional<wire::cm_message> make_reply(const rdma_cm_id& id, const rdma_conn_param& wanted,
                                           const ibv_ece& ece, std::uint64_t ca_guid,
                                           std::uint32_t starting_psn) {
  wire::cm_message message{.kind = wire::cm_kind::rep};
  if (!put_private_data(message, wanted.private_data, wanted.private_data_len)) return std::nullopt;
  message.qpn = id.qp != nullptr ? id.qp->qp_num : wanted.qp_num;
  message.starting_psn = starting_psn;
  message.responder_resources = wanted.responder_resources;
  message.initiator_depth = wanted.initiator_depth;
  message.target_ack_delay = target_ack_delay;
  message.flow_control = wanted.flow_control != 0;
  message.rnr_retry_count = std::min(wanted.rnr_retry_count, most_retries);
  message.srq = id.qp != nullptr ? id.qp->srq != nullptr : wanted.srq != 0;
  message.ca_guid = ca_guid;
  message.vendor_id = ece.vendor_id;
  message.vendor_options = ece.options;
  return message;
}

std::uint16_t source_port_of(const wire::cm_message& request) {
  ip_header header;
  std::memcpy(&header, request.private_data.data(), sizeof header);
  return ntohs(header.port);
}

std::uint32_t flow_label(std::uint32_t one_qpn, std::uint32_t other_qpn) {
  return (((one_qpn * 31 + other_qpn * 31) ^ (one_qpn ^ other_qpn) >> 12U) & 0xfffffU) | 1U;
}

}  // namespace softverbs::cm
