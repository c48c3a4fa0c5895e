// What an rdma_event_channel stands for: the queue through which users learn what has become of
// their ids.
#pragma once

#include <array>
#include <cstddef>

#include <engine/event_fd.hpp>
#include <engine/netdev_port.hpp>
#include <rdma/rdma_cma.h>

namespace softverbs::cm {

class cm_id;

/// Made when something happens, handed out by rdma_get_cm_event, deleted when it is acknowledged.
struct cm_event : rdma_cm_event {
  cm_id* owner = nullptr;  ///< waits for the acknowledgement before it is destroyed
  std::array<std::byte, 224> data{};
};

struct event_channel : rdma_event_channel {
  engine::event_fd<cm_event*> events;

  event_channel() : rdma_event_channel{} { fd = events.fd(); }

  /// False in a child of the process that made it: reading there would take the parent's events.
  [[nodiscard]] bool is_alive() const noexcept {
    return generation_ == engine::process_generation();
  }

 private:
  unsigned generation_ = engine::process_generation();
};

}  // namespace softverbs::cm
