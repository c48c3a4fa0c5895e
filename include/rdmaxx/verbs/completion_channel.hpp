#pragma once

// completion_channel, cq_event: waking up when a completion queue has completions.
//
//   auto channel = ctx.create_completion_channel().value();
//   auto cq = ctx.create_cq({.capacity = 64, .channel = channel}).value();
//   cq.req_notify().value();
//   auto event = channel.get_event(1s).value();    // std::errc::timed_out after 1 s
//   cq.req_notify().value();                        // arm again, *then* drain: nothing is missed
//   while (!cq.poll(wc).value().empty()) …
//
// An event keeps its queue alive until it is destroyed. ibv_destroy_cq waits until every event has
// been acknowledged, which takes a lock: the library counts the events that have ended, and
// acknowledges them in batches, at the latest before the queue is destroyed or handed back.
//
// An adopted channel may report events of queues that foreign code created. Such an event has no
// queue(), only the C queue, and is acknowledged when it is destroyed.
//
// Lifetime: copies share one channel; its queues keep it alive. Threads: get_event() and
// try_get_event() may be called from several threads; each event goes to one of them. The
// descriptor is non-blocking: foreign code that reads it must expect EAGAIN.

#include <chrono>
#include <optional>
#include <string>

#include <infiniband/verbs.h>

#include <rdmaxx/core/handle.hpp>
#include <rdmaxx/core/readiness.hpp>
#include <rdmaxx/core/result.hpp>
#include <rdmaxx/verbs/context.hpp>

namespace RDMAXX_NAMESPACE {

class completion_queue;

/// "This queue has completions." Move-only; one thread at a time.
class [[nodiscard]] cq_event {
 public:
  cq_event(cq_event&& other) noexcept
      : native_(std::exchange(other.native_, nullptr)),
        block_(std::move(other.block_)),
        channel_(std::move(other.channel_)) {}
  cq_event& operator=(cq_event&& other) noexcept {
    std::swap(native_, other.native_);
    std::swap(block_, other.block_);
    std::swap(channel_, other.channel_);
    return *this;
  }
  cq_event(const cq_event&) = delete;
  cq_event& operator=(const cq_event&) = delete;
  ~cq_event() { acknowledge(); }

  /// The queue that has completions; empty if foreign code created it, and after acknowledge().
  [[nodiscard]] completion_queue queue() const noexcept;
  /// The C queue, whoever created it; null after acknowledge().
  [[nodiscard]] ibv_cq* native() const noexcept { return native_; }
  /// Ends the event now; it is empty afterwards.
  void acknowledge() noexcept;

 private:
  friend class completion_channel;
  cq_event(ibv_cq* native, detail::reference block, detail::reference channel) noexcept
      : native_(native), block_(std::move(block)), channel_(std::move(channel)) {}

  ibv_cq* native_;
  detail::reference block_;    ///< of the queue; empty for a foreign one
  detail::reference channel_;  ///< that the event of a foreign queue came from
};
[[nodiscard]] std::string describe(const cq_event& event);

class completion_channel : public shared_handle<ibv_comp_channel> {
 public:
  completion_channel() noexcept = default;

  /// Takes over a channel that was created elsewhere on `ctx`'s device; its descriptor becomes
  /// non-blocking.
  [[nodiscard]] static result<completion_channel> adopt(ibv_comp_channel* native,
                                                        const rdmaxx::context& ctx,
                                                        adoption how = {});

  [[nodiscard]] const rdmaxx::context& context() const noexcept;
  /// Readable when an event is pending; for epoll and the like.
  [[nodiscard]] int fd() const noexcept { return live()->fd; }

  /// The next event, or nothing if there is none now.
  [[nodiscard]] result<std::optional<cq_event>> try_get_event() const;
  /// The next event; ETIMEDOUT if there is none in time.
  [[nodiscard]] result<cq_event> get_event(
      std::optional<std::chrono::milliseconds> timeout = forever) const;

 private:
  friend struct detail::handle_access;
  using shared_handle::shared_handle;
};
[[nodiscard]] std::string describe(const completion_channel& channel);

}  // namespace RDMAXX_NAMESPACE
