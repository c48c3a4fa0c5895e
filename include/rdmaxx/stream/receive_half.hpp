#pragma once

// receive_half: the half of a protocol_engine that receives: which slot of the window holds bytes
// to be read, which one can be posted again, and how many frames the peer may send.
//
// Lifetime: a part of its engine. Threads: one at a time, for the engine as a whole.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <rdmaxx/core/result.hpp>
#include <rdmaxx/stream/engine_core.hpp>
#include <rdmaxx/stream/frame.hpp>

namespace RDMAXX_NAMESPACE::stream_protocol {

class receive_half {
 public:
  // --- what a reader does ----------------------------------------------------------------------

  /// The next received bytes where they lie, as many as lie together. Valid until consume().
  [[nodiscard]] std::span<const std::byte> readable() const noexcept;
  /// The first `bytes` (at most available()) have been read.
  void consume(std::size_t bytes) noexcept;
  /// Copies and consumes. 0: wait for can_read(), unless at_end() or check() says otherwise.
  [[nodiscard]] std::size_t read(std::span<std::byte> into) noexcept;

  /// The bytes that can be read at once.
  [[nodiscard]] std::size_t available() const noexcept { return available_; }
  /// True if read() gives something, or never will again.
  [[nodiscard]] bool can_read() const noexcept {
    return available_ != 0 || peer_fin_ || is_shut_down_ || core_->failure;
  }
  /// The peer has shut down writing and everything was read, or shutdown() was called.
  [[nodiscard]] bool at_end() const noexcept;
  /// An error if nothing can be read any more, and that is not the end of the stream.
  [[nodiscard]] result<void> check() const;
  /// Nothing more will be read: what is here and what still comes is dropped, the peer's writes
  /// fail.
  void shutdown() noexcept;

  // --- what a driver does ----------------------------------------------------------------------

  /// The next slot to post again.
  [[nodiscard]] std::optional<std::size_t> next_slot() noexcept;
  /// The slot has been posted, so that the peer may be told.
  void posted(std::size_t slot) noexcept;
  [[nodiscard]] std::span<std::byte> memory_of(std::size_t slot) const noexcept;

 private:
  friend class protocol_engine;

  enum class slot_state : std::uint8_t { posted, unread, released, listed };
  static constexpr std::uint32_t no_slot = ~std::uint32_t{0};
  struct entry {
    std::uint32_t next = no_slot;  // in the list of its state
    std::uint32_t begin = 0;       // what is unread, from the slot's beginning
    std::uint32_t end = 0;
    slot_state state = slot_state::posted;
    bool is_control = false;
  };
  struct slot_list {
    std::uint32_t first = no_slot;
    std::uint32_t last = no_slot;
  };

  explicit receive_half(engine_core& core);

  // What has arrived.
  [[nodiscard]] bool is_posted(std::size_t slot) const noexcept {
    return slot < entries_.size() && entries_[slot].state == slot_state::posted;
  }
  [[nodiscard]] std::optional<std::string> objection_to(const frame_header& header) const;
  void take(const frame_header& header, std::uint32_t slot) noexcept;
  // What the frames of the sending half tell.
  [[nodiscard]] std::uint32_t granted() const noexcept { return granted_; }
  void advertised() noexcept { advertised_ = granted_; }
  [[nodiscard]] bool is_credit_due() const noexcept;
  /// The buffers of control frames are granted again with the very next frame: with that, the
  /// sender's reserve always suffices.
  [[nodiscard]] bool has_control_to_post() const noexcept { return control_to_post_ != 0; }
  [[nodiscard]] bool is_stop_due() const noexcept { return stop_due_; }
  void stop_handed() noexcept { stop_due_ = false; }
  [[nodiscard]] bool has_peer_fin() const noexcept { return peer_fin_; }
  void drop_unread() noexcept;

  void push(slot_list& list, std::uint32_t slot, slot_state state) noexcept;
  std::uint32_t pop(slot_list& list) noexcept;
  void release(std::uint32_t slot) noexcept { push(to_post_, slot, slot_state::released); }

  engine_core* core_;
  std::vector<entry> entries_;
  slot_list unread_;
  slot_list to_post_;
  std::size_t available_ = 0;
  std::uint32_t control_to_post_ = 0;
  std::uint32_t expected_;    // the sequence of the peer's next frame
  std::uint32_t granted_;     // up to which the peer may send
  std::uint32_t advertised_;  // of which it knows
  bool peer_fin_ = false;
  bool is_shut_down_ = false;
  bool stop_due_ = false;
};

}  // namespace RDMAXX_NAMESPACE::stream_protocol
