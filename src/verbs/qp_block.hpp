#pragma once

// qp_block: the state behind a queue_pair; its address is the C queue pair's qp_context.

#include <string>

#include <fmt/format.h>
#include <infiniband/verbs.h>

#include <rdmaxx/core/handle.hpp>
#include <rdmaxx/verbs/queue_pair.hpp>

#include "context_block.hpp"

namespace RDMAXX_NAMESPACE::detail {

class qp_block final : public native_resource<ibv_qp> {
 public:
  explicit qp_block(queue_pair_parents refers_to)
      : native_resource(ibv_destroy_qp, "ibv_destroy_qp"), parents(std::move(refers_to)) {}

  const queue_pair_parents parents;
  qp_capabilities granted{};
  /// Constant until the next reset, so that endpoint() and connect() agree. A new one after a reset
  /// keeps packets of an old connection out of a new one.
  psn first_psn{};

 private:
  void let_go() noexcept override { block_of(parents.pd.context()).objects.remove(native, *this); }
  [[nodiscard]] std::string name() const override {
    return fmt::format("queue_pair {:#x} on {}", native->qp_num,
                       parents.pd.context().device_name());
  }
};

inline qp_block& block_of(const queue_pair& qp,
                          const call_site& call = call_site::current()) noexcept {
  return handle_access::block<qp_block>(qp, call);
}

}  // namespace RDMAXX_NAMESPACE::detail
