#pragma once

// context_block: the shared state behind a context.

#include <string>

#include <infiniband/verbs.h>

#include <rdmaxx/core/handle.hpp>
#include <rdmaxx/verbs/context.hpp>
#include <rdmaxx/verbs/device_attributes.hpp>

#include "verbs/object_registry.hpp"

namespace RDMAXX_NAMESPACE::detail {

class context_block final : public native_resource<ibv_context> {
 public:
  context_block() : native_resource(ibv_close_device, "ibv_close_device") {}

  std::string device_name;
  transport_type transport = transport_type::unknown;
  /// Queried once, when opening: the limits explain later failures, so querying them must not fail
  /// then.
  device_attributes limits;
  object_registry objects;

 private:
  [[nodiscard]] std::string name() const override { return "context " + device_name; }
};

inline context_block& block_of(const context& ctx,
                               const call_site& call = call_site::current()) noexcept {
  return handle_access::block<context_block>(ctx, call);
}

/// Creates a block for an open device and a handle to it. On failure the device stays open.
[[nodiscard]] result<context> wrap_context(ibv_context* native, adoption how);

}  // namespace RDMAXX_NAMESPACE::detail
