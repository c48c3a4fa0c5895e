#pragma once

// receive_half: the receiving half of a protocol_engine: which buffers hold unread bytes, which are
// free again, and how many frames the peer may send.
//
// Lifetime: a part of its engine. Threads: one at a time, for the engine as a whole.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include <rdmaxx/core/result.hpp>
#include <rdmaxx/stream/engine_core.hpp>
#include <rdmaxx/stream/frame.hpp>
#include <rdmaxx/stream/receive_pool.hpp>

namespace RDMAXX_NAMESPACE::stream_protocol {

class receive_half {
 public:
  // --- for readers -----------------------------------------------------------------------------

  /// The next received bytes in place, as many as are contiguous. Valid until consume().
  [[nodiscard]] std::span<const std::byte> readable() const noexcept;
  /// The first `bytes` (at most available()) have been read.
  void consume(std::size_t bytes) noexcept;
  /// Copies and consumes. 0: wait for can_read(), unless at_end() or check() says otherwise.
  [[nodiscard]] std::size_t read(std::span<std::byte> into) noexcept;

  /// How many bytes can be read without waiting.
  [[nodiscard]] std::size_t available() const noexcept { return available_; }
  /// True if read() returns something, or never will again.
  [[nodiscard]] bool can_read() const noexcept {
    return available_ != 0 || peer_fin_ || is_shut_down_ || core_->failure;
  }
  /// The peer has shut down writing and everything has been read, or shutdown() was called.
  [[nodiscard]] bool at_end() const noexcept;
  /// An error if nothing can be read any more and this is not the end of the stream.
  [[nodiscard]] result<void> check() const;
  /// Nothing more will be read: data that has arrived or still arrives is dropped, and the peer's
  /// writes fail.
  void shutdown() noexcept;

  // --- for drivers -----------------------------------------------------------------------------

  /// The next buffer of the pool to post; none after a failure.
  [[nodiscard]] std::optional<std::size_t> next_to_post() noexcept {
    if (core_->failure) return std::nullopt;
    return pool().next_to_post();
  }
  /// The buffer has been posted, so it may be granted to the peer.
  void posted(std::size_t buffer) noexcept { pool().posted(buffer); }
  [[nodiscard]] std::span<std::byte> memory_of(std::size_t buffer) const noexcept {
    return pool().memory_of(buffer);
  }
  /// Data frames that the peer has been told it may send, beyond those that have arrived.
  [[nodiscard]] std::uint32_t window() const noexcept { return advertised_ - expected_; }
  /// How many of the pool's spare buffers it has borrowed.
  [[nodiscard]] std::uint32_t borrowed() const noexcept { return borrowed_; }

 private:
  friend class protocol_engine;

  explicit receive_half(engine_core& core);

  [[nodiscard]] receive_pool& pool() const noexcept { return *core_->memory.receive; }
  // What has arrived.
  [[nodiscard]] bool is_posted(std::size_t buffer) const noexcept {
    return pool().is_posted(buffer);
  }
  [[nodiscard]] std::optional<std::string> objection_to(const frame_header& header) const;
  void take(const frame_header& header, std::uint32_t buffer) noexcept;
  // What the frames of the sending half report.
  /// All free buffers have been posted: decides what the next frame grants to the peer.
  void grant() noexcept;
  [[nodiscard]] std::uint32_t granted() const noexcept { return granted_; }
  [[nodiscard]] std::uint8_t acknowledged() const noexcept { return control_received_; }
  void advertised() noexcept {
    advertised_ = granted_;
    control_acknowledged_ = control_received_;
  }
  /// The peer has not been told of more than half of what it may send.
  [[nodiscard]] bool is_credit_due() const noexcept;
  [[nodiscard]] bool is_stop_due() const noexcept { return stop_due_; }
  void stop_handed() noexcept { stop_due_ = false; }
  [[nodiscard]] bool has_peer_fin() const noexcept { return peer_fin_; }
  void drop_unread() noexcept;
  /// Returns the stream's buffers to a pool that others keep using.
  void leave() noexcept;

  /// Data frames that the peer may have in flight or this side unread.
  [[nodiscard]] std::uint32_t buffers() const noexcept {
    return core_->terms.own.credits() + borrowed_;
  }

  engine_core* core_;
  receive_pool::list unread_;
  std::size_t available_ = 0;
  std::uint32_t held_ = 0;  // buffers that hold unread data
  std::uint32_t borrowed_ = 0;
  std::uint32_t expected_;    // the sequence of the peer's next data frame
  std::uint32_t granted_;     // up to which the peer may send once it is told
  std::uint32_t advertised_;  // up to which it has been told
  std::uint32_t ready_;       // up to which it has reported data to send
  std::uint8_t control_received_ = 0;
  std::uint8_t control_acknowledged_ = 0;
  bool peer_fin_ = false;
  bool is_shut_down_ = false;
  bool stop_due_ = false;
};

}  // namespace RDMAXX_NAMESPACE::stream_protocol
