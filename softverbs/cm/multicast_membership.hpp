// The multicast groups that an rdma_cm_id has joined. Joining attaches its queue pair, if it has
// one; a user may also attach queue pairs itself.
//
// Owner: a cm_id. All functions are called with the agent's lock held.
#pragma once

#include <vector>

#include <cm/addressing.hpp>
#include <net/address.hpp>
#include <rdma/rdma_cma.h>

namespace softverbs::cm {

class multicast_membership {
 public:
  struct outcome {
    int error = 0;    ///< an errno: the call is refused
    int failure = 0;  ///< else: what the event says
    net::address group{};
  };
  /// `qp` may be null.
  [[nodiscard]] outcome join(const addressing& address, ibv_qp* qp, const sockaddr* group);
  /// Returns 0 or an errno.
  [[nodiscard]] int leave(ibv_qp* qp, const sockaddr* group);

 private:
  struct membership {
    net::address group;
    bool attached = false;
  };
  std::vector<membership> joined_;  ///< a group once for each time that it was joined
};

}  // namespace softverbs::cm
