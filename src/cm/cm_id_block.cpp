#include "cm/cm_id_block.hpp"

#include <cerrno>
#include <mutex>

#include <fmt/format.h>

#include <rdmaxx/core/check.hpp>
#include <rdmaxx/core/log.hpp>

#include "cm/event_channel_block.hpp"

namespace RDMAXX_NAMESPACE::detail {

cm_id_block::cm_id_block(event_channel events, rdma_cm_id* id, adoption how)
    : native(id), channel(std::move(events)), adopted(std::move(how)) {
  block_of(channel).ids.add(native, *this);
}

void cm_id_block::leave_groups() noexcept {
  for (const auto& group : groups) {
    // The C function takes a non-const pointer but only reads it.
    if (rdma_leave_multicast(native, const_cast<sockaddr*>(group.native())) != 0)
      log(log_level::debug, "rdma_leave_multicast failed at the end of an identifier");
  }
  groups.clear();
}

int cm_id_block::destroy_queue_pair() noexcept {
  const std::lock_guard lock(block_of(channel).mutex);
  if (!groups.empty()) {
    if (unacknowledged.load() != 0) return EBUSY;
    leave_groups();
  }
  // Not ibv_destroy_qp: librdmacm must forget the queue pair, too.
  rdma_destroy_qp(native);
  return 0;
}

int cm_id_block::destroy() noexcept {
  auto& events = block_of(channel);
  {
    const std::lock_guard lock(events.mutex);
    leave_groups();
  }
  qp = {};
  pd = {};
  // Not under the lock: iWARP waits here for the answer to a pending connection request.
  int failure = 0;
  if (adopted.kind == ownership::owned)
    failure = errno_of(adopted.destroy ? adopted.destroy() : rdma_destroy_id(native));
  if (failure == 0) events.ids.remove(native, *this);
  return failure;
}

std::string cm_id_block::destroy_call() const {
  return fmt::format("rdma_destroy_id(cm_id at {})", fmt::ptr(native));
}

}  // namespace RDMAXX_NAMESPACE::detail
