#include <engine/device_context.hpp>

#include <cerrno>

#include <base/settings.hpp>
#include <engine/fault_plan.hpp>
#include <engine/queue_pair.hpp>
#include <engine/shared_receive_queue.hpp>

namespace softverbs::engine {

device_context::device_context(std::shared_ptr<netdev_port> port_of_netdev)
    : place(std::move(port_of_netdev)),
      memory(settings::get().max_mr),
      generation_(process_generation()) {
  place->observers().add(port_events_);
}

device_context::~device_context() { place->observers().remove(port_events_); }

int device_context::refuses(std::string_view function) const {
  return is_alive() ? injected_failure(function) : ENODEV;
}

void device_context::raise(ibv_event_type type, completion_queue& cq) noexcept {
  ibv_async_event event{};
  event.event_type = type;
  event.element.cq = cq.as_cq();
  push_counted(cq.asynchronous_events, events, event);
}

void device_context::raise(ibv_event_type type, queue_pair& qp) noexcept {
  ibv_async_event event{};
  event.event_type = type;
  event.element.qp = &qp.qp_base;
  push_counted(qp.asynchronous_events, events, event);
}

void device_context::raise(ibv_event_type type, shared_receive_queue& srq) noexcept {
  ibv_async_event event{};
  event.event_type = type;
  event.element.srq = &srq;
  push_counted(srq.asynchronous_events, events, event);
}

void device_context::port_events::netdev_changed(change what) {
  ibv_async_event event{};
  switch (what) {
    case change::up:
      event.event_type = IBV_EVENT_PORT_ACTIVE;
      break;
    case change::down:
      event.event_type = IBV_EVENT_PORT_ERR;
      break;
    case change::addresses:
      event.event_type = IBV_EVENT_GID_CHANGE;
      break;
  }
  event.element.port_num = 1;
  owner_.events.push(event);
}

}  // namespace softverbs::engine
