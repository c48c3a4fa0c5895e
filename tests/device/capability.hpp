#pragma once

// capability: what a test may need and not every device has.

#include <cstdint>
#include <string_view>

namespace rdmaxx::device_tests {

enum class capability : std::uint8_t {
  manual_connection,         ///< queue pairs are connected by modify; iWARP needs rdma_cm
  self_connection,           ///< a queue pair can be connected to itself
  uc,                        ///< unreliable connected queue pairs
  ud,                        ///< datagram queue pairs
  atomics,                   ///< compare-and-swap, fetch-and-add
  immediate_data,            ///< SEND and WRITE with immediate data
  inline_data,               ///< requests that carry their bytes
  several_read_elements,     ///< a READ scatters into more than one element
  zero_based_regions,        ///< addresses of a region may count from its start
  resize_cq,                 ///< completion queues change their capacity
  solicited_events,          ///< events for solicited completions only
  receiver_not_ready,        ///< a sender learns that the peer has no receive, and retries
  remote_error_reports,      ///< the requester of a refused WRITE gets an error
  remote_read_enforced,      ///< a region without remote_read cannot be read by a peer
  retry_limit,               ///< a silent peer ends in an error completion
  truthful_state,            ///< a query reports the real state of a queue pair
  send_queue_drained_event,  ///< the transition to SQD raises an event
  cq_overflow_event,         ///< an overflowing completion queue raises an event
  ip_gids,                   ///< the GID table holds the netdev's IP addresses
  ipv6_gids,                 ///< … an IPv6 one among them that is not link-local
  pkeys,                     ///< the port has a P_Key table
  faults,                    ///< faults can be injected
};

/// The capability in words that fit after "the device lacks".
[[nodiscard]] std::string_view describe(capability what) noexcept;

}  // namespace rdmaxx::device_tests
