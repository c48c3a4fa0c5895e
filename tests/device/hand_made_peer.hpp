#pragma once

// hand_made_peer: greets like a stream and then sends whatever a test wants.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include <rdmaxx/rdmaxx.hpp>

#include "completion_waiter.hpp"

namespace rdmaxx::device_tests {

/// Speaks the protocol by hand, on a queue pair of its own.
class hand_made_peer {
 public:
  explicit hand_made_peer(const socket_address& there) {
    auto id = cm::resolve(there, {.timeout = patience}).value();
    id.create_qp({.capabilities = {.max_send_wr = 16, .max_recv_wr = buffers}}).value();
    memory_ = id.pd().allocate_local({.bytes = (buffers + 1) * buffer_bytes}).value();
    // The greeting promises these buffers.
    for (std::uint64_t i = 0; i < buffers; ++i) {
      const auto place = memory_.bytes().subspan(i * buffer_bytes, buffer_bytes);
      id.qp().post(recv_wr{.id = wr_id{i}, .into = memory_.scatter(place)}).value();
    }
    const auto hello = own_.to_bytes();
    connection_ = cm::connect(std::move(id), {.private_data = hello}, patience).value();
    peer_ = stream_protocol::greeting::from_bytes(connection_.peer_data()).value();
  }

  /// A valid header, for a test to change.
  [[nodiscard]] stream_protocol::frame_header header(std::uint32_t length) const {
    return {.length = length,
            .sequence = next_sequence_,
            .granted = peer_.first_sequence + own_.window.credits()};
  }

  /// Data frames that the other side has granted at first.
  [[nodiscard]] std::uint32_t credits() const noexcept { return peer_.window.credits(); }

  void send(const stream_protocol::frame_header& header, std::span<const std::byte> payload) {
    std::vector<std::byte> frame(stream_protocol::frame_header_bytes + payload.size());
    stream_protocol::encode(header, std::span(frame).first<stream_protocol::frame_header_bytes>());
    std::ranges::copy(payload, frame.begin() + stream_protocol::frame_header_bytes);
    send_raw(frame);
  }
  void send_raw(std::span<const std::byte> frame) {
    const auto outbox = memory_.bytes().last(buffer_bytes).first(frame.size());
    std::ranges::copy(frame, outbox.begin());
    connection_.qp().post(send_wr{.from = memory_.gather(outbox)}).value();
    wait_for_success(connection_.qp().send_cq());
    ++next_sequence_;
  }

 private:
  static constexpr std::size_t buffer_bytes = 4096;
  static constexpr std::uint32_t buffers = 8;
  static constexpr std::uint32_t first_sequence = 0xfffffffe;  // wraps around on the way

  stream_protocol::greeting own_{.window = {.buffers = buffers, .buffer_bytes = buffer_bytes},
                                 .first_sequence = first_sequence};
  stream_protocol::greeting peer_{};
  owned_region memory_;
  cm::connection connection_;
  std::uint32_t next_sequence_ = first_sequence;
};

}  // namespace rdmaxx::device_tests
