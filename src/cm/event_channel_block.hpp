#pragma once

// event_channel_block: the shared state behind an event_channel.

#include <mutex>
#include <string>

#include <fmt/format.h>
#include <rdma/rdma_cma.h>

#include <rdmaxx/cm/event_channel.hpp>
#include <rdmaxx/core/handle.hpp>

#include "verbs/object_registry.hpp"

namespace RDMAXX_NAMESPACE::detail {

class event_channel_block final : public native_resource<rdma_event_channel> {
 public:
  event_channel_block() : native_resource(destroy_channel, "rdma_destroy_event_channel") {}

  /// Held while an event is fetched, and while a queue pair is destroyed: rdma_get_cm_event changes
  /// the states of queue pairs. While it is held, every fetched event is either acknowledged or in
  /// a cm_event, so that calls that wait for acknowledgements can tell whether they would block.
  std::mutex mutex;
  object_registry ids;

 private:
  static int destroy_channel(rdma_event_channel* channel) {
    rdma_destroy_event_channel(channel);
    return 0;
  }
  [[nodiscard]] std::string name() const override {
    return fmt::format("event_channel fd {}", native->fd);
  }
};

inline event_channel_block& block_of(const event_channel& channel,
                                     const call_site& call = call_site::current()) noexcept {
  return handle_access::block<event_channel_block>(channel, call);
}

}  // namespace RDMAXX_NAMESPACE::detail
