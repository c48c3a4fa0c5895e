#pragma once

// cq_block: the shared state behind a completion_queue.

#include <atomic>
#include <string>

#include <infiniband/verbs.h>

#include <rdmaxx/core/handle.hpp>
#include <rdmaxx/verbs/completion_queue.hpp>

#include "channel_block.hpp"
#include "context_block.hpp"

namespace RDMAXX_NAMESPACE::detail {

class cq_block final : public native_resource<ibv_cq> {
 public:
  cq_block(context ctx, completion_channel events)
      : native_resource(ibv_destroy_cq, "ibv_destroy_cq"),
        parent(std::move(ctx)),
        channel(std::move(events)) {}

  const context parent;
  const completion_channel channel;
  ibv_cq_ex* extended = nullptr;  ///< the same C queue, if it was created as an extended one
  std::atomic_flag has_consumer{};

  /// Registers the queue, so that events find it by its C pointer.
  void enter() {
    block_of(parent).objects.add(native, *this);
    if (channel) block_of(channel).queues.add(native, *this);
  }

  /// An event has ended. Each acknowledgement takes a lock of the C library, so they are batched.
  void event_ended() noexcept {
    constexpr unsigned batch = 64;
    if (ended_events_.fetch_add(1, std::memory_order_relaxed) + 1 >= batch) acknowledge_events();
  }

 private:
  void acknowledge_events() noexcept {
    if (const auto count = ended_events_.exchange(0, std::memory_order_relaxed))
      ibv_ack_cq_events(native, count);
  }
  void prepare_end() noexcept override { acknowledge_events(); }
  void let_go() noexcept override {
    block_of(parent).objects.remove(native, *this);
    if (channel) block_of(channel).queues.remove(native, *this);
  }
  [[nodiscard]] std::string name() const override {
    return "completion_queue on " + std::string(parent.device_name());
  }

  std::atomic<unsigned> ended_events_{0};  ///< but not acknowledged yet
};

inline cq_block& block_of(const completion_queue& cq,
                          const call_site& call = call_site::current()) noexcept {
  return handle_access::block<cq_block>(cq, call);
}

}  // namespace RDMAXX_NAMESPACE::detail
