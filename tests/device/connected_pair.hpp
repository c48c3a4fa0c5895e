#pragma once

// connected_pair: two connected queue pairs in one process, each with what belongs to it.
//
// On RoCE and InfiniBand they are connected through endpoint() and connect(); on iWARP by rdma_cm,
// whose objects are adopted. Each side has a protection domain and completion queues of its own.

#include <cstddef>
#include <cstdint>
#include <optional>

#include <rdmaxx/rdmaxx.hpp>

#include "device_under_test.hpp"

namespace rdmaxx::device_tests {

struct pair_options {
  qp_type type = qp_type::rc;
  qp_capabilities capabilities{.max_send_sge = 4, .max_recv_sge = 4};
  bool signal_all = false;
  std::uint32_t cq_capacity = 256;
  bool with_channel = false;  ///< both completion queues of a side send their events to its channel
  bool one_cq = false;        ///< send and receive completions of a side share a queue
  qp_connect_options connect{};  ///< no meaning on iWARP
};

/// One side of a connection.
struct pair_side {
  context ctx{};
  protection_domain pd{};
  completion_channel channel{};
  completion_queue send_cq{};
  completion_queue recv_cq{};
  queue_pair qp{};

  /// Memory that the other side may read and write.
  [[nodiscard]] owned_region shared_memory(std::size_t bytes) const;
  [[nodiscard]] owned_region local_memory(std::size_t bytes) const;
};

struct connected_pair {
  explicit connected_pair(const pair_options& options = {});

  pair_side a{};
  pair_side b{};
};

/// A side whose queue pair is not connected yet, on `ctx`.
[[nodiscard]] pair_side unconnected_side(const context& ctx, const pair_options& options = {});

/// Connects two sides made by unconnected_side(); not for iWARP.
void connect_by_hand(const pair_side& a, const pair_side& b,
                     const qp_connect_options& options = {});

}  // namespace rdmaxx::device_tests
