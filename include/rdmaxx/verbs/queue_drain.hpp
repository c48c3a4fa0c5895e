#pragma once

// queue_drain: the orderly end of a queue pair, in steps that somebody else's poll loop takes.
//
//   auto draining = queue_drain::begin(qp).value();        // error state: nothing reaches the wire
//   while (!draining.is_done()) {
//     std::size_t found = 0;
//     for (const work_completion& c : poll both completion queues) {
//       ++found;
//       if (!draining.recognise(c)) account(c);             // it is one of yours
//     }
//     draining.advance(found).value();
//   }
//
// queue_pair::drain() is this loop. When it is done, every request that was posted before begin()
// has completed, and the device touches no buffer of the queue pair any more.
//
// Counting posts would cost the data path, so the device counts: a marker is posted behind
// everything else in each queue. Requests are flushed in order, so when the marker has completed,
// all have. The markers are posted in the error state, and one after the other, when what was
// flushed before has been polled: a completion queue that is just large enough has room for one
// more only then.
//
// A completion carries nothing but its queue pair and its wr_id that could tell a marker from the
// user's requests, and all 64 bits are the user's. So a marker's wr_id is drawn at random when it
// is posted, after the last of the user's requests: no value is reserved, none can be chosen so
// that it collides, and that one of 2^15 requests in flight has it by chance happens once in 2^49
// drains.
//
// Lifetime: the queue pair outlives it and does not move meanwhile. Nobody posts to it. Threads:
// one at a time.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include <rdmaxx/core/identifiers.hpp>
#include <rdmaxx/core/result.hpp>
#include <rdmaxx/verbs/completion_source.hpp>

namespace RDMAXX_NAMESPACE {

class queue_pair;

class queue_drain {
 public:
  /// Moves the queue pair to the error state. One in the reset state has nothing to drain.
  [[nodiscard]] static result<queue_drain> begin(const queue_pair& qp);

  /// True if this is a marker of this drain, which nobody else wants to know of.
  template <completion_like Completion>
  [[nodiscard]] bool recognise(const Completion& completion) noexcept {
    if (!marker_ || completion.is_success() || completion.queue_pair() != number_ ||
        completion.id() != *marker_)
      return false;
    marker_.reset();
    return true;
  }

  /// After each round that has polled both completion queues: how many completions it has found,
  /// markers included. Posts the next marker when its time has come.
  [[nodiscard]] result<void> advance(std::size_t found);

  [[nodiscard]] bool is_done() const noexcept { return phase_ == phase::done; }
  /// "send" or "recv": the queue that has not been flushed yet.
  [[nodiscard]] std::string_view awaited_queue() const noexcept {
    return phase_ == phase::send_marker ? "send" : "recv";
  }

 private:
  enum class phase : std::uint8_t { making_room, send_marker, recv_marker, last_look, done };

  explicit queue_drain(const queue_pair& qp) noexcept;

  /// What had completed before has been polled: nothing is left, or as much was found as the queues
  /// have room for. Neighbours may complete meanwhile, for ever.
  [[nodiscard]] bool has_made_room(std::size_t found) noexcept;
  [[nodiscard]] result<void> post_send_marker();
  [[nodiscard]] result<void> post_recv_marker();

  const queue_pair* qp_;
  qpn number_;
  std::size_t room_;
  std::size_t seen_ = 0;
  std::optional<wr_id> marker_{};  ///< under way
  phase phase_ = phase::making_room;
  bool takes_markers_ = true;
};
[[nodiscard]] std::string describe(const queue_drain& draining);

}  // namespace RDMAXX_NAMESPACE
