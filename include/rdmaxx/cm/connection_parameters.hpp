#pragma once

// connection_parameters: what one side tells the other when it requests or accepts a connection.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include <rdma/rdma_cma.h>

#include <rdmaxx/core/identifiers.hpp>
#include <rdmaxx/core/result.hpp>

namespace RDMAXX_NAMESPACE {

struct connection_parameters {
  /// The program's own bytes for the other program. On RoCE and InfiniBand a request carries at
  /// most 56, an acceptance 196, a rejection 148 (datagrams: 180, 136, 136); iWARP 512 less its
  /// header. The receiver sees them padded with zeros to that size, because the protocol has no
  /// length field.
  std::span<const std::byte> private_data{};
  /// Reads and atomics of the peer that this side serves at a time; the device's maximum if empty.
  std::optional<std::uint8_t> responder_resources{};
  /// This side's reads and atomics in flight; if empty, the maximum of the device (and, when
  /// accepting, of the peer).
  std::optional<std::uint8_t> initiator_depth{};
  bool flow_control = true;
  std::uint8_t retry_count = 7;  ///< 0…7; only when connecting
  std::uint8_t rnr_retry = 7;    ///< 0…6; 7: no limit
  /// Only for an id without a queue pair of its own: the one to connect, and whether it has a
  /// shared receive queue.
  qpn queue_pair{};
  bool shared_receive_queue = false;

  /// Fails if the private data is longer than any connection manager can carry.
  [[nodiscard]] result<rdma_conn_param> native() const;
  /// What the peer offered or both agreed on; `private_data` points into the C struct.
  [[nodiscard]] static connection_parameters from_native(const rdma_conn_param& native) noexcept;
};
[[nodiscard]] std::string describe(const connection_parameters& parameters);

}  // namespace RDMAXX_NAMESPACE
