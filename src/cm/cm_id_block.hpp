#pragma once

// cm_id_block: the state behind a cm_id; its handle and the events about it share it.

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
  /// Joined and not left yet. The C library forgets them only if they are left.
  std::vector<socket_address> groups;
  /// Events about this identifier in the hands of users.
  std::atomic<unsigned> unacknowledged{0};

  /// Before the queue pair ends, which stays attached to its groups otherwise. The channel's mutex
  /// must be held, and no event be unacknowledged, or this would wait for it.
  void leave_groups() noexcept;
  /// Ends the queue pair; 0 or an errno.
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
