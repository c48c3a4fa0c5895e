#pragma once

// slow_peer: a peer that requests a connection, is accepted, and never establishes it. (Its queue
// pair is unknown to the connection manager, so it would have to call rdma_establish.)

#include <cstddef>
#include <span>

#include <rdmaxx/rdmaxx.hpp>

#include "cm_conversation.hpp"
#include "completion_waiter.hpp"

namespace rdmaxx::device_tests {

class slow_peer {
 public:
  explicit slow_peer(const socket_address& server, std::span<const std::byte> hello = {})
      : id_(cm::resolve(server, {.timeout = patience}).value()),
        pd_(id_.context().value().alloc_pd().value()),
        cq_(id_.context().value().create_cq({.capacity = 8}).value()),
        qp_(pd_.create_qp({.send_cq = cq_, .recv_cq = cq_}).value()) {
    id_.connect({.private_data = hello, .queue_pair = qp_.number()}).value();
  }

  /// Waits until the peer has received the acceptance.
  void expect_accepted() const {
    static_cast<void>(expect_event(id_.channel(), cm_event_type::connect_response));
  }

 private:
  cm_id id_;
  protection_domain pd_;
  completion_queue cq_;
  queue_pair qp_;
};

}  // namespace rdmaxx::device_tests
