// The messages that an rdma_cm_id sends, made from its addresses and what its user wants. The ids
// of the connection are for the state machines to fill in, except those of a request.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include <cm/addressing.hpp>
#include <rdma/rdma_cma.h>
#include <wire/cm_message.hpp>

namespace softverbs::cm {

/// False if the message has no room for that many bytes.
[[nodiscard]] bool put_private_data(wire::cm_message& message, const void* data, std::size_t bytes);

/// The fields of a REQ or SIDR_REQ that no user chooses.
struct request_ids {
  std::uint64_t transaction = 0;
  std::uint32_t comm_id = 0;
  std::uint64_t service_id = 0;
  std::uint64_t ca_guid = 0;
  std::uint32_t starting_psn = 0;
};
/// A REQ, or a SIDR_REQ for a datagram queue pair. Nothing if the private data does not fit.
[[nodiscard]] std::optional<wire::cm_message> make_request(const rdma_cm_id& id,
                                                           const addressing& address,
                                                           const rdma_conn_param& wanted,
                                                           const ibv_ece& ece,
                                                           const request_ids& ids);
/// A REP. Nothing if the private data does not fit.
[[nodiscard]] std::optional<wire::cm_message> make_reply(const rdma_cm_id& id,
                                                         const rdma_conn_param& wanted,
                                                         const ibv_ece& ece, std::uint64_t ca_guid,
                                                         std::uint32_t starting_psn);

/// The private data of a request begins with the addresses of both ends (annex A11).
inline constexpr std::size_t ip_header_bytes = 36;
/// The port that the sender of a request has bound.
[[nodiscard]] std::uint16_t source_port_of(const wire::cm_message& request);

/// The same in both directions, and never 0.
[[nodiscard]] std::uint32_t flow_label(std::uint32_t one_qpn, std::uint32_t other_qpn);

}  // namespace softverbs::cm
