#include <abi/dispatch.hpp>

using namespace softverbs;
using namespace softverbs::abi;

namespace {

/// Events of ports and devices name no object, and neither library counts them.
const ibv_context* context_of(const ibv_async_event& event) {
  switch (event.event_type) {
    case IBV_EVENT_CQ_ERR:
      return event.element.cq->context;
    case IBV_EVENT_QP_FATAL:
    case IBV_EVENT_QP_REQ_ERR:
    case IBV_EVENT_QP_ACCESS_ERR:
    case IBV_EVENT_COMM_EST:
    case IBV_EVENT_SQ_DRAINED:
    case IBV_EVENT_PATH_MIG:
    case IBV_EVENT_PATH_MIG_ERR:
    case IBV_EVENT_QP_LAST_WQE_REACHED:
      return event.element.qp->context;
    case IBV_EVENT_SRQ_ERR:
    case IBV_EVENT_SRQ_LIMIT_REACHED:
      return event.element.srq->context;
    case IBV_EVENT_WQ_FATAL:
      return event.element.wq->context;
    default:
      return nullptr;
  }
}

}  // namespace

int ibv_get_async_event(ibv_context* context, ibv_async_event* event) {
  return is_soft(context)
             ? c_function<verbs::get_async_event, failure_as::minus_one>(context, event)
             : RDMAXX_REAL(ibv_get_async_event)(context, event);
}

void ibv_ack_async_event(ibv_async_event* event) {
  const auto* const context = context_of(*event);
  if (context == nullptr) return;
  is_soft(context) ? c_function<verbs::ack_async_event>(event)
                   : RDMAXX_REAL(ibv_ack_async_event)(event);
}
