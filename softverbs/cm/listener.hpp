// The listening side of an rdma_cm_id: each request becomes an id of its own, which the user gets
// with a CONNECT_REQUEST event.
//
// Owner: a cm_id. All functions are called with the agent's lock held.
#pragma once

#include <engine/management.hpp>

namespace softverbs::cm {

class cm_id;

class listener {
 public:
  explicit listener(cm_id& id) : id_(id) {}

  /// Returns 0 or an errno.
  [[nodiscard]] int listen(int backlog);
  /// A request that is no repetition. It is ignored, and the peer asks again, while as many
  /// requests as the backlog allows wait for the user.
  void on_request(const engine::management_datagram& datagram);
  /// The user has taken a request.
  void request_taken() { ++backlog_left_; }

 private:
  cm_id& id_;
  int backlog_left_ = 0;
};

}  // namespace softverbs::cm
