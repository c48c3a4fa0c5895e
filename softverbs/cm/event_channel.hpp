// Where users learn what became of their identifiers: what an rdma_event_channel stands for.
#pragma once

#include <array>
#include <cstddef>

#include <engine/event_fd.hpp>
#include <engine/station.hpp>
#include <rdma/rdma_cma.h>
#include <wire/cm_message.hpp>

namespace softverbs::cm {

class identifier;

/// Made when something happens, handed out by rdma_get_cm_event, deleted when it is acknowledged.
struct cm_event : rdma_cm_event {
  identifier* owner = nullptr;  ///< who waits for its acknowledgement before it goes
  std::array<std::byte, 224> data{};
};

struct event_channel : rdma_event_channel {
  engine::event_fd<cm_event*> events;

  event_channel() : rdma_event_channel{} { fd = events.fd(); }

  /// False in a child of the process that made it, where reading would rob the parent.
  [[nodiscard]] bool is_alive() const noexcept {
    return generation_ == engine::process_generation();
  }

 private:
  unsigned generation_ = engine::process_generation();
};

}  // namespace softverbs::cm
