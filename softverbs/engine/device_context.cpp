#include <engine/device_context.hpp>

#include <base/settings.hpp>
#include <engine/queue_pair.hpp>
#include <engine/shared_receive_queue.hpp>

namespace softverbs::engine {

device_context::device_context(std::shared_ptr<station> station_of_netdev)
    : place(std::move(station_of_netdev)),
      memory(settings::get().max_mr),
      generation_(process_generation()) {}

void device_context::raise(ibv_event_type type, completion_queue& cq) {
  ibv_async_event event{};
  event.event_type = type;
  cq.asynchronous_events.raised();
  event.element.cq = cq.as_cq();
  events.push(event);
}

void device_context::raise(ibv_event_type type, queue_pair& qp) {
  ibv_async_event event{};
  event.event_type = type;
  qp.asynchronous_events.raised();
  event.element.qp = &qp.qp_base;
  events.push(event);
}

void device_context::raise(ibv_event_type type, shared_receive_queue& srq) {
  ibv_async_event event{};
  event.event_type = type;
  srq.asynchronous_events.raised();
  event.element.srq = &srq;
  events.push(event);
}

void device_context::raise_port(ibv_event_type type) {
  ibv_async_event event{};
  event.event_type = type;
  event.element.port_num = 1;
  events.push(event);
}

}  // namespace softverbs::engine
