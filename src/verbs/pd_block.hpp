#pragma once

// pd_block: the shared state behind a protection_domain.

#include <string>

#include <infiniband/verbs.h>

#include <rdmaxx/core/handle.hpp>
#include <rdmaxx/verbs/context.hpp>
#include <rdmaxx/verbs/protection_domain.hpp>

namespace RDMAXX_NAMESPACE::detail {

class pd_block final : public native_resource<ibv_pd> {
 public:
  explicit pd_block(rdmaxx::context ctx)
      : native_resource(ibv_dealloc_pd, "ibv_dealloc_pd"), parent(std::move(ctx)) {}

  const rdmaxx::context parent;

 private:
  [[nodiscard]] std::string name() const override {
    return "protection_domain on " + std::string(parent.device_name());
  }
};

inline pd_block& block_of(const protection_domain& pd,
                          const call_site& call = call_site::current()) noexcept {
  return handle_access::block<pd_block>(pd, call);
}

}  // namespace RDMAXX_NAMESPACE::detail
