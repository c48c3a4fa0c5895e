#pragma once

// armed_queues: which of a stream's two completion queues will raise an event, so that none is
// armed twice and the channel is read only when an event may be there.
//
// Owned with the channel and the queues. Threads: one at a time.

#include <array>
#include <cstddef>
#include <utility>

#include <rdmaxx/core/result.hpp>

#include "stream/stream_device.hpp"
#include "stream/stream_resources.hpp"

namespace RDMAXX_NAMESPACE::detail {

class armed_queues {
 public:
  using queue = stream_device::queue;

  [[nodiscard]] result<bool> arm(const stream_resources& of, queue which) {
    if (std::exchange(is_armed_[index(which)], true)) return false;
    RDMAXX_TRY((which == queue::sends ? of.send_cq : of.recv_cq).req_notify());
    return true;
  }

  [[nodiscard]] result<void> take_events(const stream_resources& of) {
    while (is_armed_[0] || is_armed_[1]) {  // each queue that is armed raises one event
      RDMAXX_TRY(const auto event, of.channel.try_get_event());
      if (!event) return {};
      const bool is_sends = event->queue().native() == of.send_cq.native();
      is_armed_[index(is_sends ? queue::sends : queue::receives)] = false;
    }
    return {};
  }

 private:
  static constexpr std::size_t index(queue which) noexcept { return which == queue::sends ? 0 : 1; }

  std::array<bool, 2> is_armed_{};  ///< an event is due, or pending in the channel
};

}  // namespace RDMAXX_NAMESPACE::detail
