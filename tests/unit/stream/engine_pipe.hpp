#pragma once

// engine_pipe: protocol engines and what stands for the connections between them. As on a reliable
// connection, frames arrive in order, each takes the receive that was posted first, and one that
// finds none is fatal: receiver_not_ready. Bytes are read from the sender's memory when they
// arrive, so a buffer that is used again too early shows.
//
// Several engines may receive from one receive_queue, as from a shared receive queue: whichever
// buffer was posted first takes the next frame of any of them. And several may send from one
// send_buffers.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include <rdmaxx/stream/protocol_engine.hpp>

namespace rdmaxx_test {

struct send_ring {
  std::size_t slots = 4;
  std::size_t slot_bytes = 64;
};

/// The buffers of a send_pool.
class send_buffers {
  using send_pool = rdmaxx::stream_protocol::send_pool;

 public:
  send_buffers(send_ring ring, send_pool::use who)
      : memory_(ring.slots * ring.slot_bytes),
        pool(memory_, static_cast<std::uint32_t>(ring.slot_bytes), who) {}

 private:
  std::vector<std::byte> memory_;

 public:
  send_pool pool;
};

/// The buffers of a receive_pool, and those of them that a device knows of.
class receive_queue {
 public:
  /// `spare`: those that belong to none of the streams.
  receive_queue(const rdmaxx::stream_protocol::receive_window& each, std::uint32_t streams,
                std::uint32_t spare)
      : memory_((std::size_t{streams} * each.buffers + spare) * each.buffer_bytes),
        pool(memory_, each.buffer_bytes, spare) {
    for (std::size_t buffer = 0; buffer < pool.size(); ++buffer) posted.push_back(buffer);
  }

 private:
  std::vector<std::byte> memory_;

 public:
  rdmaxx::stream_protocol::receive_pool pool;
  std::deque<std::size_t> posted;
};

class engine_side {
 public:
  engine_side(const rdmaxx::stream_protocol::agreement& terms, send_ring ring)
      : engine_side(
            terms, std::make_shared<receive_queue>(terms.own, 1, terms.own.growth),
            std::make_shared<send_buffers>(ring, rdmaxx::stream_protocol::send_pool::use::by_one),
            static_cast<std::uint32_t>(ring.slots)) {}
  /// With what it may share with others.
  engine_side(const rdmaxx::stream_protocol::agreement& terms,
              std::shared_ptr<receive_queue> receives, std::shared_ptr<send_buffers> sends,
              std::uint32_t most_send_buffers)
      : receives_(std::move(receives)),
        sends_(std::move(sends)),
        control_(rdmaxx::stream_protocol::send_half::control_bytes),
        engine(rdmaxx::stream_protocol::protocol_engine::create(terms,
                                                                {.control = control_,
                                                                 .send = &sends_->pool,
                                                                 .send_buffers = most_send_buffers,
                                                                 .receive = &receives_->pool})
                   .value()) {}

  /// Each of these takes one step and says whether there was one to take.
  bool post_receive() {
    const auto buffer = engine.receiving().next_to_post();
    if (!buffer) return false;
    receives_->posted.push_back(*buffer);
    engine.receiving().posted(*buffer);
    return true;
  }
  bool send() {
    const auto frame = engine.next_send();
    if (!frame) return false;
    under_way_.push_back(*frame);
    return true;
  }
  /// The peer's device has the frame, but its driver does not know yet.
  bool land_at(engine_side& peer) {
    if (under_way_.empty()) return false;
    const auto frame = under_way_.front();
    under_way_.pop_front();
    std::vector<std::byte> bytes(frame.bytes.begin(), frame.bytes.end());
    bytes.insert(bytes.end(), frame.in_place.begin(), frame.in_place.end());
    static_cast<void>(peer.land(bytes));
    arrived_.push_back(frame.id);
    return true;
  }
  bool take_landed() {
    if (landed_.empty()) return false;
    const auto [buffer, size] = landed_.front();
    landed_.pop_front();
    static_cast<void>(engine.received(buffer, size));
    return true;
  }
  bool deliver_to(engine_side& peer) {
    while (peer.take_landed()) {
    }
    return land_at(peer) && (peer.take_landed(), true);
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
    RDMAXX_TRY(land(bytes));
    while (landed_.size() > 1) take_landed();
    const auto [buffer, size] = landed_.front();
    landed_.pop_front();
    return engine.received(buffer, size);
  }

  /// The queue pair is gone: what had arrived, and what the engine has, is free and posted again.
  void leave() {
    engine.leave();
    under_way_.clear();
    arrived_.clear();
    for (const auto& each : landed_) receives_->pool.returned(each.buffer);
    landed_.clear();
    while (const auto buffer = receives_->pool.next_to_post()) {
      receives_->posted.push_back(*buffer);
      receives_->pool.posted(*buffer);
    }
  }

  [[nodiscard]] std::size_t under_way() const { return under_way_.size(); }
  [[nodiscard]] const receive_queue& receives() const { return *receives_; }
  [[nodiscard]] const send_buffers& sends() const { return *sends_; }

 private:
  struct landed_frame {
    std::size_t buffer = 0;
    std::size_t size = 0;
  };

  rdmaxx::result<void> land(std::span<const std::byte> bytes) {
    auto& posted = receives_->posted;
    if (posted.empty()) {
      receiver_not_ready = true;
      return rdmaxx::misuse_error("receiving", "no receive is posted");
    }
    const auto buffer = posted.front();
    posted.pop_front();
    const auto memory = engine.receiving().memory_of(buffer);
    if (bytes.size() > memory.size()) {
      too_long = true;
      return rdmaxx::misuse_error("receiving", "the message is longer than the receive buffer");
    }
    std::ranges::copy(bytes, memory.begin());
    landed_.push_back({buffer, bytes.size()});
    return {};
  }

  std::shared_ptr<receive_queue> receives_;
  std::shared_ptr<send_buffers> sends_;
  std::vector<std::byte> control_;
  std::deque<rdmaxx::stream_protocol::outgoing_frame> under_way_;
  std::deque<landed_frame> landed_;
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
    while (from.take_landed()) moved = true;
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
