#include <cm/api_call.hpp>

#include <memory>

#include <cm/event_channel.hpp>
#include <cm/soft_cm.hpp>

namespace softverbs::cm {

void acknowledge_held_event(rdma_cm_id* id) {
  if (id->event == nullptr) return;
  ack_cm_event(id->event);
  id->event = nullptr;
}

int complete(rdma_cm_id* id) {
  if (!cm_id::of(id).events.is_synchronous()) return 0;
  acknowledge_held_event(id);
  if (get_cm_event(id->channel, &id->event) != 0) return -1;
  const int status = id->event->status;
  if (status == 0) return 0;
  if (id->event->event == RDMA_CM_EVENT_REJECTED) return result(ECONNREFUSED);
  return result(status < 0 ? -status : status);
}

int make_id(rdma_event_channel* channel, rdma_cm_id** id, void* context, rdma_port_space space,
            ibv_qp_type type) {
  switch (space) {
    case RDMA_PS_TCP:
    case RDMA_PS_UDP:
    case RDMA_PS_IPOIB:
    case RDMA_PS_IB:
      break;
    default:
      return result(EINVAL);
  }
  std::unique_ptr<event_channel> own;
  auto* events = static_cast<event_channel*>(channel);
  if (events == nullptr) {
    own = std::make_unique<event_channel>();
    if (own->fd < 0) return result(EMFILE);
    events = own.get();
  }
  auto& manager = agent::of_process();
  const std::lock_guard lock(manager.mutex);
  auto made = std::make_unique<cm_id>(manager, *events, context, space, type);
  static_cast<void>(made->events.make_synchronous(std::move(own)));
  *id = made.release();
  return 0;
}

}  // namespace softverbs::cm
