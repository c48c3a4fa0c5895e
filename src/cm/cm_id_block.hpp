#pragma once

// cm_id_block: the state behind a cm_id, shared by its handle and its events.

#include <atomic>
#include <string>
#include <vector>

#include <rdma/rdma_cma.h>

#include <rdmaxx/cm/cm_id.hpp>
#include <rdmaxx/core/handle.hpp>

namespace RDMAXX_NAMESPACE::detail {

class cm_id_block final : public resource {
 public:
  cm_id_block(event_channel events, rdma_cm_id* id, adoption how);

  rdma_cm_id* const native;
  event_channel channel;
  adoption adopted;
  protection_domain pd;
  queue_pair qp;
  /// Joined but not left yet. The C library forgets them only when they are left.
  std::vector<socket_address> groups;
  /// Events of this identifier that users hold.
  std::atomic<unsigned> unacknowledged{0};

  /// Call it before the queue pair is destroyed, which otherwise stays attached to its groups. The
  /// channel's mutex must be held and all events acknowledged, or this would wait for them.
  void leave_groups() noexcept;
  /// Destroys the queue pair; returns 0 or an errno.
  [[nodiscard]] int destroy_queue_pair() noexcept;

 private:
  [[nodiscard]] int destroy() noexcept override;
  [[nodiscard]] std::string destroy_call() const override;
};

inline cm_id_block& block_of(const cm_id& id,
                             const call_site& call = call_site::current()) noexcept {
  return handle_access::block<cm_id_block>(id, call);
}

}  // namespace RDMAXX_NAMESPACE::detail
