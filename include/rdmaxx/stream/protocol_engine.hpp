#pragma once

// protocol_engine: the rules of a stream's protocol over one reliable connection, without any I/O.
//
// It decides which frame is sent next, what a received frame means, which receive buffer can be
// posted again, and when the connection is over. It has two halves, send_half and receive_half; the
// engine itself handles what concerns both: frames, which carry the state of one half to the peer's
// other half, and the end. A driver (a stream) owns the connection and the memory and does what the
// engine says; docs/stream-protocol.md has the protocol and the driver's loop. The engine starts
// when both greetings are known and all receive buffers are posted.
//
//   auto engine = protocol_engine::create(terms, {.control = …, .send = …, .receive = …}).value();
//   auto& sending = engine.sending(); auto& receiving = engine.receiving();
//   sending.write(bytes);                                         // copies what there is room for
//   while (auto one = receiving.next_to_post()) { post_receive(*one); receiving.posted(*one); }
//   while (auto frame = engine.next_send()) post_send(*frame);    // with its id
//   …                                                             // a send has completed:
//   sending.sent_up_to(id);
//   …                                                             // a receive has completed:
//   RDMAXX_TRY(engine.received(buffer, bytes));
//   auto here = receiving.readable(); use(here); receiving.consume(here.size());
//
// Lifetime: the memory belongs to the driver, does not move, and outlives the engine and the
// device's use of it. Destroying an engine does nothing.
//
// Threads: one at a time. The stream holds a lock.
//
// Cost: nothing is allocated after create() except to describe a failure.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include <rdmaxx/core/result.hpp>
#include <rdmaxx/stream/engine_core.hpp>
#include <rdmaxx/stream/frame.hpp>
#include <rdmaxx/stream/greeting.hpp>
#include <rdmaxx/stream/receive_half.hpp>
#include <rdmaxx/stream/send_half.hpp>

namespace RDMAXX_NAMESPACE::stream_protocol {

class protocol_engine {
 public:
  /// All buffers of the pool that the greeting announced are posted. Memory that does not fit the
  /// negotiated terms is an error (misuse).
  [[nodiscard]] static result<protocol_engine> create(const agreement& terms,
                                                      const engine_memory& memory);

  protocol_engine(protocol_engine&&) = default;
  protocol_engine& operator=(protocol_engine&&) = default;
  protocol_engine(const protocol_engine&) = delete;
  protocol_engine& operator=(const protocol_engine&) = delete;
  ~protocol_engine() = default;

  [[nodiscard]] send_half& sending() noexcept { return sending_; }
  [[nodiscard]] const send_half& sending() const noexcept { return sending_; }
  [[nodiscard]] receive_half& receiving() noexcept { return receiving_; }
  [[nodiscard]] const receive_half& receiving() const noexcept { return receiving_; }

  /// The next frame to send now, if any. First post what receiving().next_to_post() returns.
  [[nodiscard]] std::optional<outgoing_frame> next_send() noexcept;
  /// A completed send may allow more frames to be handed out.
  [[nodiscard]] bool waits_for_sends() const noexcept;
  /// A frame of `bytes` has arrived in a buffer of the pool. An error caused by the peer also
  /// becomes the failure().
  [[nodiscard]] result<void> received(std::size_t buffer, std::size_t bytes);

  /// Gives up: the peer's reads and writes fail with ECONNRESET, ours with ECONNABORTED.
  void abort();
  /// The connection has ended. Call this after passing everything that had arrived to received().
  /// Unless both sides had ended the stream before, that is a failure(); data that has arrived can
  /// still be read. A peer that disconnects `in_order` after its fin has received ours, too, even
  /// if the device could no longer report it.
  void connection_lost(bool in_order = false);
  /// The connection has nothing more to do: both sides have ended the stream, or it has failed and
  /// the peer knows, as far as it can be told.
  [[nodiscard]] bool wants_disconnect() const noexcept;
  /// Returns its buffers to its pools. For shared pools: call it after the queue pair has been
  /// destroyed, and nothing else afterwards.
  void leave() noexcept;
  /// Why the connection has failed. The first failure stays.
  [[nodiscard]] const std::optional<error>& failure() const noexcept { return core_->failure; }

  [[nodiscard]] const agreement& terms() const noexcept { return core_->terms; }
  [[nodiscard]] const engine_statistics& statistics() const noexcept { return core_->numbers; }

 private:
  explicit protocol_engine(std::unique_ptr<engine_core> core)
      : core_(std::move(core)), sending_(*core_), receiving_(*core_) {}

  [[nodiscard]] std::optional<outgoing_frame> choose_frame() noexcept;
  [[nodiscard]] result<void> take(const frame_header& header, std::uint32_t buffer);
  [[nodiscard]] result<void> fail(error reason, std::optional<reset_reason> tell_peer);
  [[nodiscard]] bool is_finished() const noexcept {
    return sending_.has_sent_fin() && receiving_.has_peer_fin();
  }

  std::unique_ptr<engine_core> core_;  ///< on the heap, so that both halves find it after a move
  send_half sending_;
  receive_half receiving_;
};
/// "stream engine: 60 credits, 2 frames in flight, 120 bytes written and not released, 0 to read"
[[nodiscard]] std::string describe(const protocol_engine& engine);

}  // namespace RDMAXX_NAMESPACE::stream_protocol
