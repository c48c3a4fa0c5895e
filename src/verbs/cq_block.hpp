#pragma once

// cq_block: the shared state behind a completion_queue; its address is the C queue's cq_context.

#include <string>

#include <infiniband/verbs.h>

#include <rdmaxx/core/handle.hpp>
#include <rdmaxx/verbs/completion_queue.hpp>

#include "context_block.hpp"

namespace rdmaxx::inline v0::detail {

class cq_block final : public native_resource<ibv_cq> {
 public:
  cq_block(context ctx, completion_channel events)
      : native_resource(ibv_destroy_cq, "ibv_destroy_cq"),
        parent(std::move(ctx)),
        channel(std::move(events)) {}

  const context parent;
  const completion_channel channel;

 private:
  void let_go() noexcept override { block_of(parent).objects.remove(native, *this); }
  [[nodiscard]] std::string name() const override {
    return "completion_queue on " + std::string(parent.device_name());
  }
};

inline cq_block& block_of(const completion_queue& cq,
                          const call_site& call = call_site::current()) noexcept {
  return handle_access::block<cq_block>(cq, call);
}

}  // namespace rdmaxx::inline v0::detail
