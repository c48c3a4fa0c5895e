#pragma once

// engine_pipe: two protocol engines and what stands for the connection between them. As on a
// reliable connection, frames arrive in order, each takes the receive that was posted first, and
// one that finds none is fatal: receiver_not_ready. Bytes are read from the sender's memory when
// they arrive, so a slot that is used again too early shows.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <span>
#include <vector>

#include <rdmaxx/stream/protocol_engine.hpp>

namespace rdmaxx_test {

struct send_ring {
  std::size_t slots = 4;
  std::size_t slot_bytes = 64;
};

class engine_side {
 public:
  engine_side(const rdmaxx::stream_protocol::agreement& terms, send_ring ring)
      : send_memory_(rdmaxx::stream_protocol::send_half::control_bytes +
                     ring.slots * ring.slot_bytes),
        receive_memory_(std::size_t{terms.own.buffers} * terms.own.buffer_bytes),
        engine(rdmaxx::stream_protocol::protocol_engine::create(terms,
                                                                {.send = send_memory_,
                                                                 .send_slot_bytes = ring.slot_bytes,
                                                                 .receive = receive_memory_})
                   .value()) {
    for (std::size_t slot = 0; slot < terms.own.buffers; ++slot) receive_queue_.push_back(slot);
  }

  /// Each of these takes one step and says whether there was one to take.
  bool post_receive() {
    const auto slot = engine.receiving().next_slot();
    if (!slot) return false;
    receive_queue_.push_back(*slot);
    engine.receiving().posted(*slot);
    return true;
  }
  bool send() {
    const auto frame = engine.next_send();
    if (!frame) return false;
    under_way_.push_back(*frame);
    return true;
  }
  bool deliver_to(engine_side& peer) {
    if (under_way_.empty()) return false;
    const auto frame = under_way_.front();
    under_way_.pop_front();
    std::vector<std::byte> bytes(frame.bytes.begin(), frame.bytes.end());
    bytes.insert(bytes.end(), frame.in_place.begin(), frame.in_place.end());
    static_cast<void>(peer.arrive(bytes));
    arrived_.push_back(frame.sequence);
    return true;
  }
  bool complete_send() {
    if (arrived_.empty()) return false;
    engine.sending().sent_up_to(arrived_.front());
    arrived_.pop_front();
    return true;
  }
  /// One completion for all that have arrived, as of a batch whose last request was signalled.
  bool complete_sends() {
    if (arrived_.empty()) return false;
    engine.sending().sent_up_to(arrived_.back());
    arrived_.clear();
    return true;
  }

  /// A frame from the network, honest or not.
  rdmaxx::result<void> arrive(std::span<const std::byte> bytes) {
    if (receive_queue_.empty()) {
      receiver_not_ready = true;
      return rdmaxx::misuse_error("receiving", "no receive is posted");
    }
    const auto slot = receive_queue_.front();
    receive_queue_.pop_front();
    const auto memory = engine.receiving().memory_of(slot);
    if (bytes.size() > memory.size()) {
      too_long = true;
      return rdmaxx::misuse_error("receiving", "the message is longer than the receive buffer");
    }
    std::ranges::copy(bytes, memory.begin());
    return engine.received(slot, bytes.size());
  }

  [[nodiscard]] std::size_t under_way() const { return under_way_.size(); }

 private:
  std::vector<std::byte> send_memory_;
  std::vector<std::byte> receive_memory_;
  std::deque<std::size_t> receive_queue_;
  std::deque<rdmaxx::stream_protocol::outgoing_frame> under_way_;
  std::deque<std::uint32_t> arrived_;

 public:
  rdmaxx::stream_protocol::protocol_engine engine;
  bool receiver_not_ready = false;
  bool too_long = false;  ///< a message did not fit into the receive buffer
};

/// Until nothing moves any more without a reader or a writer.
inline void pump(engine_side& a, engine_side& b) {
  const auto step = [](engine_side& from, engine_side& to) {
    bool moved = false;
    while (from.post_receive()) moved = true;
    while (from.send()) moved = true;
    while (from.deliver_to(to)) moved = true;
    while (from.complete_send()) moved = true;
    return moved;
  };
  while (step(a, b) || step(b, a)) {
  }
}

}  // namespace rdmaxx_test
