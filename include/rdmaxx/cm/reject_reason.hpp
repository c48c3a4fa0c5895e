#pragma once

// reject_reason: why the peer, or its connection manager, rejected a connection.
//
// The reasons of the IBTA specification (12.6.7.2), as RoCE and InfiniBand report them; iWARP
// reports only that the connection was refused. The error of a rejected connection has the reason
// as its code:
//
//   if (failure.code() == reject_reason::no_such_service) …      // nobody listens on that port
//   if (failure == std::errc::connection_refused) …              // whatever the reason

#include <cstdint>
#include <string_view>
#include <system_error>

#include <rdmaxx/core/error.hpp>

namespace RDMAXX_NAMESPACE {

enum class reject_reason : std::uint16_t {
  no_queue_pair = 1,
  no_eec = 2,
  no_resources = 3,
  timeout = 4,
  unsupported_request = 5,
  invalid_communication_id = 6,
  invalid_communication_instance = 7,
  no_such_service = 8,  ///< nobody listens
  invalid_transport_type = 9,
  stale_connection = 10,
  no_rdc = 11,
  invalid_gid = 12,
  invalid_lid = 13,
  invalid_service_level = 14,
  invalid_traffic_class = 15,
  invalid_hop_limit = 16,
  invalid_packet_rate = 17,
  invalid_alternate_gid = 18,
  invalid_alternate_lid = 19,
  invalid_alternate_service_level = 20,
  invalid_alternate_traffic_class = 21,
  invalid_alternate_hop_limit = 22,
  invalid_alternate_packet_rate = 23,
  port_and_manager_redirect = 24,
  port_redirect = 25,
  invalid_mtu = 26,
  insufficient_responder_resources = 27,
  consumer = 28,  ///< the peer's program rejected it; its private data is in error::peer_data()
  invalid_rnr_retry_count = 29,
  duplicate_communication_id = 30,
  invalid_class_version = 31,
  invalid_flow_label = 32,
  invalid_alternate_flow_label = 33,
  vendor_option_not_supported = 35,
};
[[nodiscard]] std::string_view describe(reject_reason reason) noexcept;
/// What a person can do about it.
[[nodiscard]] std::string_view hint(reject_reason reason) noexcept;

/// The category of std::error_codes whose values are reject_reason. All are equivalent to
/// std::errc::connection_refused, except for the timeout.
[[nodiscard]] const std::error_category& reject_category() noexcept;
[[nodiscard]] std::error_code make_error_code(reject_reason reason) noexcept;

}  // namespace RDMAXX_NAMESPACE

template <>
struct std::is_error_code_enum<rdmaxx::reject_reason> : std::true_type {};
