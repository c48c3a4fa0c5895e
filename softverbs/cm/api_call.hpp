// What the functions of soft_cm.hpp have in common: the error convention of librdmacm, the agent's
// lock, and the wait of synchronous ids.
#pragma once

#include <cerrno>
#include <mutex>

#include <cm/agent.hpp>
#include <cm/cm_id.hpp>
#include <rdma/rdma_cma.h>

namespace softverbs::cm {

/// The convention of librdmacm: 0, or -1 with errno.
[[nodiscard]] inline int result(int failure) {
  if (failure == 0) return 0;
  errno = failure;
  return -1;
}

/// Calls `function` with the id, under the lock.
template <class Function>
[[nodiscard]] int with(rdma_cm_id* id, Function function) {
  auto& who = cm_id::of(id);
  if (!who.is_alive()) return result(ENODEV);
  const std::lock_guard lock(who.manager.mutex);
  return result(function(who));
}

/// A synchronous id waits for the outcome of what it has begun.
[[nodiscard]] int complete(rdma_cm_id* id);

template <class Function>
[[nodiscard]] int begin_and_complete(rdma_cm_id* id, Function function) {
  return with(id, function) == 0 ? complete(id) : -1;
}

/// Acknowledges the event that a synchronous id holds, if there is one.
void acknowledge_held_event(rdma_cm_id* id);

/// Without a channel the id is synchronous.
[[nodiscard]] int make_id(rdma_event_channel* channel, rdma_cm_id** id, void* context,
                          rdma_port_space space, ibv_qp_type type);

}  // namespace softverbs::cm
