#pragma once

// dawdler: a peer that asks, is accepted, and never says that it is up. (With a queue pair that the
// connection manager does not know, it would have to.)

#include <cstddef>
#include <span>

#include <rdmaxx/rdmaxx.hpp>

#include "cm_conversation.hpp"
#include "completion_waiter.hpp"

namespace rdmaxx::device_tests {

class dawdler {
 public:
  explicit dawdler(const socket_address& server, std::span<const std::byte> hello = {})
      : id_(cm::resolve(server, {.timeout = patience}).value()),
        pd_(id_.context().value().alloc_pd().value()),
        cq_(id_.context().value().create_cq({.capacity = 8}).value()),
        qp_(pd_.create_qp({.send_cq = cq_, .recv_cq = cq_}).value()) {
    id_.connect({.private_data = hello, .queue_pair = qp_.number()}).value();
  }

  /// It has heard that it was accepted.
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
