#pragma once

// iwarp_connection: connects two queue pairs of one process through rdma_cm.
//
// iWARP has no other way. librdmacm makes contexts and queue pairs; rdmaxx adopts them.

#include <memory>

#include <rdma/rdma_cma.h>

#include "connected_pair.hpp"

namespace rdmaxx::device_tests {

/// The connection manager's objects; they live as long as a queue pair or context that was adopted
/// from them.
class iwarp_connection : public std::enable_shared_from_this<iwarp_connection> {
 public:
  /// Fills both sides; `a` is the one that connects.
  static void connect(pair_side& a, pair_side& b, const pair_options& options);

  iwarp_connection();
  iwarp_connection(const iwarp_connection&) = delete;
  iwarp_connection& operator=(const iwarp_connection&) = delete;
  ~iwarp_connection();

 private:
  void listen();
  void resolve();
  [[nodiscard]] pair_side make_side(rdma_cm_id* id, const pair_options& options);
  /// Waits for this event; returns the id it is about.
  rdma_cm_id* expect(rdma_cm_event_type wanted) const;

  rdma_event_channel* channel_ = nullptr;
  rdma_cm_id* listener_ = nullptr;
  rdma_cm_id* active_ = nullptr;
  rdma_cm_id* passive_ = nullptr;
};

}  // namespace rdmaxx::device_tests
