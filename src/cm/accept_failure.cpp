#include "cm/accept_failure.hpp"

#include <cerrno>

#include <rdma/rdma_cma.h>

#include <rdmaxx/cm/cm_event.hpp>

namespace RDMAXX_NAMESPACE::detail {

namespace {

error peer_has_gone() {
  return errno_error("accepting", ECONNRESET, "the peer closed the connection");
}

/// The kernel drops pending events of an identifier that the program has not accepted yet, but
/// refuses further steps of a connection that has ended.
bool is_over(const cm_id& id) {
  ibv_qp_attr attributes{};
  attributes.qp_state = IBV_QPS_INIT;
  int mask = 0;
  return rdma_init_qp_attr(id.native(), &attributes, &mask) != 0 && errno == EINVAL;
}

}  // namespace

error accept_failure(const error& failure, const cm_id& id) {
  for (;;) {
    const auto fetched = id.channel().try_get_event();
    if (!fetched) return failure;
    const auto& event = *fetched;
    if (!event) return is_over(id) ? peer_has_gone() : failure;
    if (!event->concerns(id)) continue;
    if (const auto outcome = event->outcome(); !outcome) return outcome.error();
    if (event->type() == cm_event_type::disconnected) return peer_has_gone();
  }
}

}  // namespace RDMAXX_NAMESPACE::detail
