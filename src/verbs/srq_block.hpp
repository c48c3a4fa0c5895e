#pragma once

// srq_block: the shared state behind a shared_receive_queue.

#include <cstdint>
#include <string>
#include <utility>

#include <infiniband/verbs.h>

#include <rdmaxx/core/handle.hpp>
#include <rdmaxx/verbs/shared_receive_queue.hpp>

#include "context_block.hpp"

namespace RDMAXX_NAMESPACE::detail {

class srq_block final : public native_resource<ibv_srq> {
 public:
  explicit srq_block(protection_domain domain)
      : native_resource(ibv_destroy_srq, "ibv_destroy_srq"), pd(std::move(domain)) {}

  const protection_domain pd;
  std::uint32_t capacity = 0;

 private:
  void let_go() noexcept override { block_of(pd.context()).objects.remove(native, *this); }
  [[nodiscard]] std::string name() const override {
    return "shared_receive_queue on " + std::string(pd.context().device_name());
  }
};

inline srq_block& block_of(const shared_receive_queue& srq,
                           const call_site& call = call_site::current()) noexcept {
  return handle_access::block<srq_block>(srq, call);
}

}  // namespace RDMAXX_NAMESPACE::detail
