#pragma once

// send_half: the sending half of a protocol_engine: written bytes wait in buffers of a send_pool,
// are handed out as frames as far as the peer has granted credits, and are released when their
// sends have completed. Small writes share a frame while another small one is in flight.
//
// Lifetime: a part of its engine. Threads: one at a time, for the engine as a whole.

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <rdmaxx/core/result.hpp>
#include <rdmaxx/stream/engine_core.hpp>
#include <rdmaxx/stream/frame.hpp>
#include <rdmaxx/stream/send_pool.hpp>

namespace RDMAXX_NAMESPACE::stream_protocol {

/// A frame to post as one SEND. Post frames in the order in which they are handed out.
struct outgoing_frame {
  std::uint32_t id = 0;                ///< of the request, for sent_up_to()
  std::span<const std::byte> bytes{};  ///< the header, and the payload if it was copied
  /// The memory and tag given to write_in_place(); the memory is gathered after `bytes`.
  std::span<const std::byte> in_place{};
  std::uint64_t tag = 0;
};
/// "frame 7: 16 bytes and 4096 in place"
[[nodiscard]] std::string describe(const outgoing_frame& frame);

class send_half {
 public:
  static constexpr std::size_t control_slots = 4;
  static constexpr std::size_t control_slot_bytes = 32;
  /// The size of the memory for control frames.
  static constexpr std::size_t control_bytes = control_slots * control_slot_bytes;
  static constexpr std::uint32_t fewest_buffers = 2;

  // --- for writers -----------------------------------------------------------------------------

  /// How many bytes the writer is about to write, so that the peer knows how much to grant.
  void announce(std::size_t bytes) noexcept { announced_ = bytes; }
  /// Copies as many bytes as there is room for. 0: wait for can_write(), or check() says why never.
  [[nodiscard]] std::size_t write(std::span<const std::byte> bytes) noexcept;
  /// The same without a copy: takes as many bytes as fit into one frame, or 0: wait for
  /// can_write_in_place(). They must not change until released_position() has passed them.
  [[nodiscard]] std::size_t write_in_place(std::span<const std::byte> bytes,
                                           std::uint64_t tag) noexcept;
  /// Sends what has been written so far without waiting to gather more.
  void flush() noexcept { flush_ = handed_ != written_; }
  /// Nothing more will be written; the peer reads what was written, then the end of the stream.
  void shutdown() noexcept;

  /// True if write() accepts something, or never will again.
  [[nodiscard]] bool can_write() const noexcept { return can_write_in_place() || has_open_slot(); }
  /// The same for write_in_place(), which needs a slot of its own.
  [[nodiscard]] bool can_write_in_place() const noexcept {
    return !accepts_writes() || can_borrow();
  }
  /// True if can_write() is false because other streams hold all buffers of the pool.
  [[nodiscard]] bool waits_for_pool() const noexcept {
    return !can_write() && has_room() && pool().available() == 0;
  }
  /// An error if nothing can be written any more: EPIPE after shutdown() or if the peer has stopped
  /// reading, or the engine's failure().
  [[nodiscard]] result<void> check() const;

  [[nodiscard]] std::uint64_t written_position() const noexcept {
    return core_->numbers.bytes_written;
  }
  /// Bytes before this position of the stream are no longer needed: sent, or dropped.
  [[nodiscard]] std::uint64_t released_position() const noexcept;
  /// Bytes that were written but not confirmed as sent by a completion, including dropped ones,
  /// which never will be.
  [[nodiscard]] std::uint64_t unconfirmed() const noexcept {
    return core_->numbers.bytes_written - confirmed_;
  }
  /// True if written bytes, or the end, have not been handed out yet.
  [[nodiscard]] bool has_unsent() const noexcept {
    if (core_->failure || !core_->is_connected) return false;
    return handed_ != written_ || (end_ != write_end::open && !fin_handed_);
  }
  /// True if this side's fin has reached the peer, and with it all earlier bytes.
  [[nodiscard]] bool has_sent_fin() const noexcept { return fin_sent_; }

  // --- for drivers -----------------------------------------------------------------------------

  /// The sends of all frames up to and including this one have completed. Ignores ids that are not
  /// in flight.
  void sent_up_to(std::uint32_t id) noexcept;
  /// Frames handed out that have not completed.
  [[nodiscard]] std::size_t in_flight() const noexcept { return next_id_ - completed_; }
  /// How many buffers it may borrow at a time.
  [[nodiscard]] std::uint32_t buffers() const noexcept { return core_->memory.send_buffers; }
  /// How many entries the send queue must have.
  [[nodiscard]] std::size_t most_in_flight() const noexcept {
    return control_slots + slots_.size();
  }
  /// The payload bytes of a frame filled by write().
  [[nodiscard]] std::size_t frame_capacity() const noexcept { return copy_capacity_; }
  /// Data frames for which the peer has granted buffers.
  [[nodiscard]] std::uint32_t credits() const noexcept { return peer_granted_ - next_sequence_; }
  /// True if data cannot be handed out, or even written, for lack of credits.
  [[nodiscard]] bool waits_for_credits() const noexcept {
    return is_stalled_ || (pool().is_shared() && credits() == 0);
  }

 private:
  friend class protocol_engine;

  struct slot {
    std::uint64_t begin = 0;   // position in the stream
    std::uint32_t buffer = 0;  // of the pool
    std::uint32_t bytes = 0;   // copied payload
    std::uint32_t id = 0;
    std::span<const std::byte> in_place{};
    std::uint64_t tag = 0;
  };
  enum class write_end : std::uint8_t { open, shut_down, stopped_by_peer };
  /// What each frame reports about the receiving half.
  struct grant {
    std::uint32_t granted = 0;
    std::uint8_t acknowledged = 0;
    bool is_due = false;  // the peer needs it soon
  };

  explicit send_half(engine_core& core);

  // What the engine can hand out now.
  [[nodiscard]] std::optional<outgoing_frame> next_data(const grant& given) noexcept;
  [[nodiscard]] std::optional<outgoing_frame> next_reset(const grant& given) noexcept;
  /// A credit frame only if the peer has acknowledged the previous one.
  [[nodiscard]] std::optional<outgoing_frame> next_control(frame_header header,
                                                           const grant& given) noexcept;
  // What the peer reports.
  [[nodiscard]] std::optional<std::string> objection_to(const frame_header& header) const;
  void told(const frame_header& header) noexcept {
    peer_granted_ = header.granted;
    control_acknowledged_ = header.acknowledged;
  }
  void stopped_by_peer() noexcept;
  // The end.
  void drop_queued() noexcept;
  void reset(std::optional<reset_reason> why) noexcept { reset_due_ = why; }
  [[nodiscard]] bool has_reset_due() const noexcept { return reset_due_.has_value(); }
  /// A reset is in flight, or due and can be sent.
  [[nodiscard]] bool is_resetting() const noexcept {
    return reset_in_flight_ || (reset_due_ && may_send_control(frame_kind::reset));
  }
  /// The peer has received everything that was handed out.
  void confirm_all() noexcept;
  [[nodiscard]] bool has_handed_fin() const noexcept { return fin_handed_; }
  /// Returns the stream's buffers to a pool that others keep using. Its queue pair has been
  /// destroyed.
  void leave() noexcept;

  [[nodiscard]] std::size_t index_of(std::uint64_t position) const noexcept {
    return position % slots_.size();
  }
  [[nodiscard]] send_pool& pool() const noexcept { return *core_->memory.send; }
  [[nodiscard]] std::span<std::byte> memory_at(std::uint64_t position) const noexcept {
    return pool().memory_of(slots_[index_of(position)].buffer);
  }
  [[nodiscard]] bool has_open_slot() const noexcept;
  /// True if the pool has a buffer for one more slot.
  [[nodiscard]] bool has_room() const noexcept {
    return written_ - released_ < slots_.size() &&
           (!pool().is_shared() || written_ - handed_ < credits() + pool().lent_without_credit());
  }
  [[nodiscard]] bool can_borrow() const noexcept { return has_room() && pool().available() != 0; }
  void release_slots(std::uint64_t begin, std::uint64_t end) noexcept;
  [[nodiscard]] bool accepts_writes() const noexcept {
    return end_ == write_end::open && !core_->failure;
  }
  [[nodiscard]] bool may_leave(const grant& given) const noexcept;
  [[nodiscard]] bool may_send_control(frame_kind kind) const noexcept;
  [[nodiscard]] bool has_control_slot() const noexcept {
    return control_handed_ - control_released_ != control_slots;
  }
  [[nodiscard]] std::uint8_t wanted() const noexcept;
  [[nodiscard]] outgoing_frame next_queued(const grant& given) noexcept;
  [[nodiscard]] outgoing_frame next_bare(frame_header header, const grant& given) noexcept;
  [[nodiscard]] std::uint32_t stamp(frame_header header, const grant& given,
                                    std::span<std::byte> into) noexcept;

  engine_core* core_;

  // Positions count slots; released_ <= handed_ <= written_.
  std::vector<slot> slots_;
  std::uint64_t released_ = 0;
  std::uint64_t handed_ = 0;
  std::uint64_t written_ = 0;
  std::uint64_t confirmed_ = 0;       // position in the stream after the last slot that was sent
  std::uint64_t small_ones_end_ = 0;  // after the last slot that was handed out with room left
  std::uint64_t announced_ = 0;       // bytes that a writer still has
  std::uint32_t copy_capacity_;       // payload of a frame that is copied

  std::array<std::uint32_t, control_slots> control_ids_{};
  std::uint64_t control_released_ = 0;
  std::uint64_t control_handed_ = 0;

  std::uint32_t next_id_ = 0;    // counts frames
  std::uint32_t completed_ = 0;  // the first id whose send has not completed
  std::uint32_t next_sequence_;  // counts data frames
  std::uint32_t peer_granted_;   // up to which the peer has buffers
  std::uint8_t control_sent_ = 0;
  std::uint8_t control_acknowledged_ = 0;  // how many of these the peer has received
  std::uint8_t last_credit_frame_ = 0;     // control_sent_ after it
  std::uint32_t fin_id_ = 0;
  std::uint32_t reset_id_ = 0;
  std::optional<reset_reason> reset_due_;
  write_end end_ = write_end::open;
  bool peer_stopped_ = false;
  bool flush_ = false;
  bool is_stalled_ = false;
  bool fin_handed_ = false;
  bool fin_sent_ = false;
  bool reset_in_flight_ = false;
};

}  // namespace RDMAXX_NAMESPACE::stream_protocol
