#pragma once

// qp_creation: what all C functions that create a queue pair have in common.

#include <functional>
#include <string_view>

#include <infiniband/verbs.h>

#include <rdmaxx/core/handle.hpp>
#include <rdmaxx/core/result.hpp>
#include <rdmaxx/verbs/queue_pair.hpp>

namespace RDMAXX_NAMESPACE::detail {

struct qp_creation {
  std::string_view call = "ibv_create_qp";
  /// Returns null and sets errno on failure; writes back what was granted.
  std::function<ibv_qp*(ibv_qp_init_attr_ex& attributes)> make{};
  /// How to destroy the queue pair.
  adoption end{};
};

[[nodiscard]] result<queue_pair> create_queue_pair(const protection_domain& pd,
                                                   const queue_pair_config& config,
                                                   qp_creation how);

}  // namespace RDMAXX_NAMESPACE::detail
