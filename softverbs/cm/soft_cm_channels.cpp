// The functions of librdmacm for channels and their events.
#include <cerrno>
#include <memory>
#include <mutex>

#include <cm/agent.hpp>
#include <cm/api_call.hpp>
#include <cm/cm_id.hpp>
#include <cm/event_channel.hpp>
#include <cm/soft_cm.hpp>
#include <engine/fault_plan.hpp>

namespace softverbs::cm {

rdma_event_channel* create_event_channel() {
  if (const int wanted = engine::injected_failure("rdma_create_event_channel")) {
    errno = wanted;
    return nullptr;
  }
  auto made = std::make_unique<event_channel>();
  if (made->fd >= 0) return made.release();
  errno = EMFILE;
  return nullptr;
}

void destroy_event_channel(rdma_event_channel* channel) {
  auto* const events = static_cast<event_channel*>(channel);
  // Ids that still report to it are at their end; their users may still destroy them.
  static auto* const nowhere = new event_channel;
  if (auto* const manager = agent::of_process_if_made()) {
    const std::lock_guard lock(manager->mutex);
    for (auto* each : manager->ids.all()) {
      if (&each->events.channel() != events) continue;
      each->retire();
      each->events.migrate_to(*nowhere);
    }
  }
  delete events;
}

int get_cm_event(rdma_event_channel* channel, rdma_cm_event** event) {
  if (event == nullptr) return result(EINVAL);
  auto& events = *static_cast<event_channel*>(channel);
  if (!events.is_alive()) return result(ENODEV);
  const auto taken = events.events.take();
  if (!taken) return -1;
  auto& seen = **taken;
  auto& who = cm_id::of(seen.id);
  {
    const std::lock_guard lock(who.manager.mutex);
    cm_id::prepare(seen);
    if (seen.event == RDMA_CM_EVENT_CONNECT_REQUEST && seen.owner->events.is_synchronous())
      static_cast<void>(who.events.make_synchronous(std::make_unique<event_channel>()));
  }
  *event = &seen;
  return 0;
}

int ack_cm_event(rdma_cm_event* event) {
  if (event == nullptr) return result(EINVAL);
  auto* const acknowledged = static_cast<cm_event*>(event);
  auto* const owner = acknowledged->owner;
  delete acknowledged;
  owner->events.acknowledge(1);
  return 0;
}

}  // namespace softverbs::cm
