#pragma once

// channel_block: the shared state behind a completion_channel.

#include <string>

#include <infiniband/verbs.h>

#include <rdmaxx/core/handle.hpp>
#include <rdmaxx/verbs/completion_channel.hpp>

#include "object_registry.hpp"

namespace RDMAXX_NAMESPACE::detail {

class channel_block final : public native_resource<ibv_comp_channel> {
 public:
  explicit channel_block(context ctx)
      : native_resource(ibv_destroy_comp_channel, "ibv_destroy_comp_channel"),
        parent(std::move(ctx)) {}

  const context parent;
  /// Events name their queue by its C pointer; its cq_context may belong to foreign code.
  object_registry queues;

 private:
  [[nodiscard]] std::string name() const override {
    return "completion_channel on " + std::string(parent.device_name());
  }
};

inline channel_block& block_of(const completion_channel& channel,
                               const call_site& call = call_site::current()) noexcept {
  return handle_access::block<channel_block>(channel, call);
}

}  // namespace RDMAXX_NAMESPACE::detail
