#pragma once

// queue_drain: draining a queue pair in steps, for use inside another poll loop.
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
// queue_pair::drain() is this loop. When it is done, every request posted before begin() has
// completed, and the device no longer accesses any buffer of the queue pair.
//
// Counting posts would slow down the data path, so a marker is posted behind everything else in
// each queue. Requests are flushed in order, so when the marker has completed, all have. The
// markers are posted in the error state, one after the other, after the flushed requests have been
// polled: only then does a completion queue that is just large enough have room for one more.
//
// Only its queue pair and its wr_id distinguish a marker's completion from the user's, and all 64
// bits of the wr_id belong to the user. So a marker's wr_id is drawn at random when it is posted,
// after the last of the user's requests: no value is reserved, and the chance that one of 2^15
// requests in flight has the same one is 1 in 2^49 drains.
//
// Lifetime: the queue pair must outlive it and must not move, and nothing may be posted to it.
// Threads: one at a time.

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

  /// True if this is a marker of this drain, which the caller should ignore.
  template <completion_like Completion>
  [[nodiscard]] bool recognise(const Completion& completion) noexcept {
    if (!marker_ || completion.is_success() || completion.queue_pair() != number_ ||
        completion.id() != *marker_)
      return false;
    marker_.reset();
    return true;
  }

  /// Call it after each round of polling both completion queues, with the number of completions
  /// found, including markers. Posts the next marker when it is due.
  [[nodiscard]] result<void> advance(std::size_t found);

  [[nodiscard]] bool is_done() const noexcept { return phase_ == phase::done; }
  /// "send" or "recv": the queue that has not been flushed yet.
  [[nodiscard]] std::string_view awaited_queue() const noexcept {
    return phase_ == phase::send_marker ? "send" : "recv";
  }

 private:
  enum class phase : std::uint8_t { making_room, send_marker, recv_marker, last_look, done };

  explicit queue_drain(const queue_pair& qp) noexcept;

  /// Everything that had completed before has been polled: the queues were empty, or as many
  /// completions were found as they can hold. Other queue pairs may keep completing, so the queues
  /// may never be empty.
  [[nodiscard]] bool has_made_room(std::size_t found) noexcept;
  [[nodiscard]] result<void> post_send_marker();
  [[nodiscard]] result<void> post_recv_marker();

  const queue_pair* qp_;
  qpn number_;
  std::size_t room_;
  std::size_t seen_ = 0;
  std::optional<wr_id> marker_{};  ///< in flight
  phase phase_ = phase::making_room;
  bool takes_markers_ = true;
};
[[nodiscard]] std::string describe(const queue_drain& draining);

}  // namespace RDMAXX_NAMESPACE
