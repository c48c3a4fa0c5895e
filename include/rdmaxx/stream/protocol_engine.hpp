#pragma once

// protocol_engine: the rules of a stream's protocol over one reliable connection, without any I/O.
//
// It decides which frame is sent next, what a received frame means, which receive buffer can be
// posted again, and when the connection is over. A driver (a stream) owns the connection and the
// memory and does what the engine says; docs/stream-protocol.md has the protocol and the driver's
// loop. It begins when both greetings are known and all receive buffers are posted.
//
//   auto engine = protocol_engine::create(terms, {.send = …, .receive = …}).value();
//   engine.write(bytes);                                          // copies what there is room for
//   while (auto slot = engine.next_receive()) { post_receive(*slot); engine.posted(*slot); }
//   while (auto frame = engine.next_send()) post_send(*frame);    // sequence as the request's id
//   …                                                             // a send has completed:
//   engine.sent_up_to(sequence);
//   …                                                             // a receive has completed:
//   RDMAXX_TRY(engine.received(slot, bytes));
//   auto here = engine.readable(); use(here); engine.consume(here.size());
//
// Lifetime: the memory is the driver's, stays where it is, and outlives the engine and whatever the
// device still does with it. Destroying an engine does nothing.
//
// Threads: one at a time. The stream holds a lock.
//
// Cost: nothing is allocated after create() except to describe a failure.

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <rdmaxx/core/result.hpp>
#include <rdmaxx/stream/frame.hpp>
#include <rdmaxx/stream/greeting.hpp>

namespace rdmaxx::inline v0::stream_protocol {

/// What a driver lends an engine: registered memory, for the device to read and to write.
struct engine_memory {
  std::span<std::byte> send{};          ///< protocol_engine::control_bytes, then the send slots
  std::size_t send_slot_bytes = 16384;  ///< of each one, the frame's header included
  std::span<std::byte> receive{};       ///< the slots of the receive window, one behind the other
};
/// "49280 bytes to send from in slots of 16384, 1048576 bytes to receive in"
[[nodiscard]] std::string describe(const engine_memory& memory);

/// A frame to post as one SEND, in the order in which they are handed out.
struct outgoing_frame {
  std::uint32_t sequence = 0;          ///< for sent_up_to()
  std::span<const std::byte> bytes{};  ///< the header, and the payload if it was copied
  /// What write_in_place() was given, to be gathered behind `bytes`, and the tag that came with it.
  std::span<const std::byte> in_place{};
  std::uint64_t tag = 0;
};
/// "frame 7: 16 bytes and 4096 in place"
[[nodiscard]] std::string describe(const outgoing_frame& frame);

struct engine_statistics {
  std::uint64_t bytes_written = 0;  ///< accepted by write() and write_in_place()
  std::uint64_t bytes_read = 0;     ///< given to the reader
  std::uint64_t frames_sent = 0;
  std::uint64_t frames_received = 0;
  std::uint64_t credit_frames_sent = 0;
  std::uint64_t credit_frames_received = 0;
  std::uint64_t in_place_frames_sent = 0;
  std::uint64_t coalesced_writes = 0;  ///< that joined bytes of an earlier one in a frame
  std::uint64_t credit_stalls = 0;     ///< times that data had to wait for the peer's buffers
};
[[nodiscard]] std::string describe(const engine_statistics& statistics);

class protocol_engine {
 public:
  static constexpr std::size_t control_slots = 4;
  static constexpr std::size_t control_slot_bytes = 32;
  /// The beginning of the send memory, for frames that are not data.
  static constexpr std::size_t control_bytes = control_slots * control_slot_bytes;
  /// Data leaves so many of the peer's buffers to the other frames: two credits, stop and reset.
  static constexpr std::uint32_t control_reserve = 4;
  static constexpr std::size_t fewest_send_slots = 2;

  /// Everything that the greeting announced is posted, slot by slot. Memory that does not fit the
  /// agreement is an error (misuse).
  [[nodiscard]] static result<protocol_engine> create(const agreement& terms,
                                                      const engine_memory& memory);

  protocol_engine(protocol_engine&&) = default;
  protocol_engine& operator=(protocol_engine&&) = default;
  protocol_engine(const protocol_engine&) = delete;
  protocol_engine& operator=(const protocol_engine&) = delete;
  ~protocol_engine() = default;

  // --- writing ---------------------------------------------------------------------------------

  /// Copies as many bytes as there is room for. 0: wait for can_write(), or check_write() says why
  /// never.
  [[nodiscard]] std::size_t write(std::span<const std::byte> bytes) noexcept;

  /// The same without a copy: takes as many bytes as fit into one frame, or 0: wait for
  /// can_write_in_place(). They must stay as they are until released_position() has passed them.
  [[nodiscard]] std::size_t write_in_place(std::span<const std::byte> bytes,
                                           std::uint64_t tag) noexcept;

  /// The bytes of a frame that write() fills.
  [[nodiscard]] std::size_t frame_capacity() const noexcept { return copy_capacity_; }

  /// What has been written so far does not wait for company.
  void flush() noexcept { flush_ = handed_ != written_; }

  /// Something that was written, or the end, has not been handed out yet.
  [[nodiscard]] bool has_unsent() const noexcept {
    if (failure_ || !is_connected_) return false;
    return handed_ != written_ || (write_end_ != write_end::open && !fin_handed_);
  }
  /// Something that could not be handed out may be when a send has completed.
  [[nodiscard]] bool waits_for_sends() const noexcept {
    return in_flight() != 0 && (has_unsent() || stop_due_ || reset_due_ || is_credit_due());
  }
  /// Data could not be handed out for want of the peer's buffers.
  [[nodiscard]] bool waits_for_credits() const noexcept { return is_stalled_; }
  /// The end of what this side writes has reached the peer, behind all the rest.
  [[nodiscard]] bool has_sent_fin() const noexcept { return fin_sent_; }

  /// True if write() takes something, or never will again.
  [[nodiscard]] bool can_write() const noexcept;
  /// The same for write_in_place(), which needs a slot of its own.
  [[nodiscard]] bool can_write_in_place() const noexcept;
  /// An error if nothing can be written any more: EPIPE after shutdown_write() or if the peer has
  /// stopped reading, or the failure().
  [[nodiscard]] result<void> check_write() const;

  /// Nothing more will be written; the peer reads the end of the stream behind what was.
  void shutdown_write() noexcept;

  [[nodiscard]] std::uint64_t written_position() const noexcept { return numbers_.bytes_written; }
  /// Bytes before this position of the stream are no longer needed: sent, or dropped.
  [[nodiscard]] std::uint64_t released_position() const noexcept;

  /// Bytes that were written and of which no completion has told that they were sent; of those that
  /// were dropped none ever will.
  [[nodiscard]] std::uint64_t unconfirmed() const noexcept {
    return numbers_.bytes_written - confirmed_;
  }

  // --- reading ---------------------------------------------------------------------------------

  /// The next received bytes where they lie, as many as lie together. Valid until consume().
  [[nodiscard]] std::span<const std::byte> readable() const noexcept;
  /// The first `bytes` (at most available()) have been read.
  void consume(std::size_t bytes) noexcept;
  /// Copies and consumes. 0: wait for can_read(), unless at_end() or check_read() says otherwise.
  [[nodiscard]] std::size_t read(std::span<std::byte> into) noexcept;

  /// The bytes that can be read at once.
  [[nodiscard]] std::size_t available() const noexcept { return available_; }
  /// True if read() gives something, or never will again.
  [[nodiscard]] bool can_read() const noexcept;
  /// The peer has shut down writing and everything was read, or shutdown_read() was called.
  [[nodiscard]] bool at_end() const noexcept;
  /// An error if nothing can be read any more, and that is not the end of the stream.
  [[nodiscard]] result<void> check_read() const;

  /// Nothing more will be read: what is here and what still comes is dropped, the peer's writes
  /// fail.
  void shutdown_read() noexcept;

  // --- the connection --------------------------------------------------------------------------

  /// The next frame to send now, if any. Post what next_receive() gives before asking.
  [[nodiscard]] std::optional<outgoing_frame> next_send() noexcept;
  /// The sends of the frames up to and with this one have completed. Others than those that are
  /// under way are ignored.
  void sent_up_to(std::uint32_t sequence) noexcept;
  /// Frames handed out that have not completed.
  [[nodiscard]] std::size_t in_flight() const noexcept { return next_sequence_ - completed_; }
  /// The entries that the send queue must have.
  [[nodiscard]] std::size_t most_in_flight() const noexcept {
    return control_slots + send_slots_.size();
  }

  /// A frame of `bytes` has arrived in a slot. An error that is the peer's fault is the failure()
  /// as well.
  [[nodiscard]] result<void> received(std::size_t slot, std::size_t bytes);
  /// The next slot to post again.
  [[nodiscard]] std::optional<std::size_t> next_receive() noexcept;
  /// The slot has been posted, so that the peer may be told.
  void posted(std::size_t slot) noexcept;
  [[nodiscard]] std::span<std::byte> receive_slot(std::size_t slot) const noexcept;

  /// Gives up: the peer's reads and writes fail with ECONNRESET, ours with ECONNABORTED.
  void abort();
  /// There is no connection any more. Call it after what had arrived was given to received().
  /// Unless both sides had ended the stream before, that is a failure(); what has arrived can
  /// still be read. A peer that disconnects `in_order` after its fin has got ours, too, even if the
  /// device could not tell any more.
  void connection_lost(bool in_order = false);
  /// The connection has nothing more to do: both sides have ended the stream, or it has failed and
  /// the peer knows, as far as it can be told.
  [[nodiscard]] bool wants_disconnect() const noexcept;
  /// Why the connection has failed. Stays as it is.
  [[nodiscard]] const std::optional<error>& failure() const noexcept { return failure_; }

  /// Frames that the peer has buffers for.
  [[nodiscard]] std::uint32_t credits() const noexcept { return peer_granted_ - next_sequence_; }
  [[nodiscard]] const agreement& terms() const noexcept { return terms_; }
  [[nodiscard]] const engine_statistics& statistics() const noexcept { return numbers_; }

 private:
  struct send_slot {
    std::uint64_t begin = 0;  // position in the stream
    std::uint32_t bytes = 0;  // copied payload
    std::uint32_t sequence = 0;
    std::span<const std::byte> in_place{};
    std::uint64_t tag = 0;
  };
  enum class receive_state : std::uint8_t { posted, unread, released, listed };
  static constexpr std::uint32_t no_slot = ~std::uint32_t{0};
  struct receive_entry {
    std::uint32_t next = no_slot;  // in the list of its state
    std::uint32_t begin = 0;       // what is unread, from the slot's beginning
    std::uint32_t end = 0;
    receive_state state = receive_state::posted;
    bool is_control = false;
  };
  struct receive_list {
    std::uint32_t first = no_slot;
    std::uint32_t last = no_slot;
  };
  enum class write_end : std::uint8_t { open, shut_down, stopped_by_peer };

  protocol_engine(const agreement& terms, const engine_memory& memory);

  [[nodiscard]] std::size_t index_of(std::uint64_t position) const noexcept {
    return position % send_slots_.size();
  }
  [[nodiscard]] std::span<std::byte> send_memory_at(std::uint64_t position) const noexcept;
  [[nodiscard]] bool has_open_slot() const noexcept;
  [[nodiscard]] bool has_free_slot() const noexcept {
    return written_ - released_ < send_slots_.size();
  }
  [[nodiscard]] bool accepts_writes() const noexcept {
    return write_end_ == write_end::open && !failure_;
  }
  void drop_queued() noexcept;

  [[nodiscard]] bool is_credit_due() const noexcept;
  [[nodiscard]] bool may_leave() const noexcept;
  [[nodiscard]] std::optional<outgoing_frame> next_data() noexcept;
  [[nodiscard]] std::optional<outgoing_frame> next_queued() noexcept;
  [[nodiscard]] std::optional<outgoing_frame> next_control(frame_kind kind, bool fin,
                                                           std::uint32_t length) noexcept;
  void stamp(frame_header header, std::span<std::byte> slot) noexcept;

  void push(receive_list& list, std::uint32_t slot, receive_state state) noexcept;
  std::uint32_t pop(receive_list& list) noexcept;
  void release(std::uint32_t slot) noexcept;
  void drop_unread() noexcept;

  [[nodiscard]] result<void> take(const frame_header& header, std::uint32_t slot);
  [[nodiscard]] result<void> fail(error reason, std::optional<reset_reason> tell_peer);
  [[nodiscard]] bool is_finished() const noexcept { return fin_sent_ && peer_fin_; }

  agreement terms_;
  engine_memory memory_;
  engine_statistics numbers_;
  std::optional<error> failure_;

  // Sending. Positions count slots; released_ <= handed_ <= written_.
  std::vector<send_slot> send_slots_;
  std::array<std::uint32_t, control_slots> control_sequences_{};
  std::uint64_t released_ = 0;
  std::uint64_t handed_ = 0;
  std::uint64_t written_ = 0;
  std::uint64_t confirmed_ = 0;       // position in the stream behind the last slot that was sent
  std::uint64_t small_ones_end_ = 0;  // behind the last slot that was handed out with room left
  std::uint64_t control_released_ = 0;
  std::uint64_t control_handed_ = 0;
  std::uint32_t copy_capacity_;  // payload of a frame that is copied
  std::uint32_t next_sequence_;
  std::uint32_t completed_;  // the first sequence whose send has not completed
  std::uint32_t peer_granted_;
  std::uint32_t fin_sequence_ = 0;
  std::uint32_t reset_sequence_ = 0;
  std::optional<reset_reason> reset_due_;
  write_end write_end_ = write_end::open;
  bool flush_ = false;
  bool is_stalled_ = false;
  bool fin_handed_ = false;
  bool fin_sent_ = false;
  bool reset_in_flight_ = false;

  // Receiving.
  std::vector<receive_entry> receive_entries_;
  receive_list unread_;
  receive_list to_post_;
  std::size_t available_ = 0;
  std::uint32_t control_to_post_ = 0;
  std::uint32_t expected_;
  std::uint32_t granted_;
  std::uint32_t advertised_;
  bool peer_fin_ = false;
  bool peer_stopped_ = false;
  bool read_shut_down_ = false;
  bool stop_due_ = false;

  bool is_connected_ = true;
  bool is_lost_ = false;  // that is the failure
};
/// "stream engine: 60 credits, 2 frames in flight, 120 bytes written and not released, 0 to read"
[[nodiscard]] std::string describe(const protocol_engine& engine);

}  // namespace rdmaxx::inline v0::stream_protocol
