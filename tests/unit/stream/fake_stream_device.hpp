#pragma once

// fake_stream_device: a device for a stream's driver that does what a test tells it: completions,
// events and failures come when the test says so. It also has the engine's memory.

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include <sys/eventfd.h>
#include <unistd.h>

#include <rdmaxx/core/result.hpp>
#include <rdmaxx/stream/frame.hpp>
#include <rdmaxx/stream/protocol_engine.hpp>

#include "stream/stream_device.hpp"

namespace rdmaxx_test {

/// A descriptor that is readable when it is raised.
class raised_descriptor {
 public:
  raised_descriptor() : fd_(::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)) {}
  raised_descriptor(const raised_descriptor&) = delete;
  raised_descriptor& operator=(const raised_descriptor&) = delete;
  ~raised_descriptor() { ::close(fd_); }

  void raise() const { static_cast<void>(::eventfd_write(fd_, 1)); }
  void lower() const {
    eventfd_t value = 0;
    static_cast<void>(::eventfd_read(fd_, &value));
  }
  [[nodiscard]] int fd() const { return fd_; }

 private:
  int fd_;
};

class fake_stream_device final : public rdmaxx::detail::stream_device {
 public:
  struct posted_send {
    std::uint64_t id = 0;
    std::vector<std::byte> bytes{};  ///< as they were when they were posted
    bool is_signaled = false;
  };

  static constexpr std::uint32_t send_buffer_bytes = 64;

  fake_stream_device(const rdmaxx::stream_protocol::agreement& terms, std::uint32_t send_buffers)
      : terms_(terms),
        send_buffers_(send_buffers),
        control_(rdmaxx::stream_protocol::send_half::control_bytes),
        send_memory_(std::size_t{send_buffers} * send_buffer_bytes),
        receive_memory_(std::size_t{terms.own.buffers} * terms.own.buffer_bytes),
        send_pool_(send_memory_, send_buffer_bytes),
        receive_pool_(receive_memory_, terms.own.buffer_bytes) {
    for (std::size_t buffer = 0; buffer < terms.own.buffers; ++buffer)
      receives.push_back({.buffer = buffer, .into = receive_pool_.memory_of(buffer)});
  }

  [[nodiscard]] rdmaxx::stream_protocol::protocol_engine make_engine() {
    return rdmaxx::stream_protocol::protocol_engine::create(terms_, {.control = control_,
                                                                     .send = &send_pool_,
                                                                     .send_buffers = send_buffers_,
                                                                     .receive = &receive_pool_})
        .value();
  }

  // --- what a test does ------------------------------------------------------------------------

  /// A frame of the peer arrives in the receive that was posted first.
  void arrive(rdmaxx::stream_protocol::frame_header header,
              std::span<const std::byte> payload = {}) {
    header.length = static_cast<std::uint32_t>(payload.size());
    const auto [buffer, into] = receives.front();
    receives.pop_front();
    rdmaxx::stream_protocol::encode(header,
                                    into.first<rdmaxx::stream_protocol::frame_header_bytes>());
    std::ranges::copy(payload, into.subspan(rdmaxx::stream_protocol::frame_header_bytes).begin());
    complete(queue::receives, buffer, IBV_WC_SUCCESS,
             rdmaxx::stream_protocol::frame_header_bytes + payload.size());
  }
  /// The device has sent everything; like a real one, it reports only signaled requests.
  void complete_sends() { take_sends(IBV_WC_SUCCESS); }
  /// The first one fails with this status; it and all behind it complete, signaled or not.
  void fail_sends(ibv_wc_status status) { take_sends(status); }
  void flush_receives() {
    for (; !receives.empty(); receives.pop_front())
      complete(queue::receives, receives.front().buffer, IBV_WC_WR_FLUSH_ERR, 0);
  }

  /// As if a completion that concerns others had raised an event.
  void wake() { completion_.raise(); }

  // --- what a test looks at and sets -----------------------------------------------------------

  std::deque<posted_send> sends;  ///< and the probe
  std::deque<receive_request> receives;
  std::deque<connection_event> connection_events;
  bool is_armed[2] = {false, false};  ///< by queue: its event is due, or waits
  int arms[2] = {0, 0};
  int disconnects = 0;
  int flushes = 0;
  int probes = 0;
  bool loses_flushes = false;  ///< as iWARP may
  bool poll_fails = false;
  std::optional<std::size_t> takes_only;  ///< so many more sends, then none
  bool refuses_receives = false;
  bool refuses_probes = false;

  // --- stream_device ---------------------------------------------------------------------------

  rdmaxx::poll_result poll(queue which, std::span<rdmaxx::work_completion> into) override {
    if (poll_fails) return {into.data(), -1};
    auto& from = completions_[index(which)];
    int count = 0;
    for (; !from.empty() && static_cast<std::size_t>(count) < into.size(); from.pop_front())
      into[static_cast<std::size_t>(count++)] = rdmaxx::work_completion(from.front());
    return {into.data(), count};
  }
  rdmaxx::result<bool> arm(queue which) override {
    if (std::exchange(is_armed[index(which)], true)) return false;
    ++arms[index(which)];
    return true;
  }
  rdmaxx::result<void> take_completion_events() override {
    for (; !events_.empty(); events_.pop_front()) is_armed[index(events_.front())] = false;
    has_raised_ = {};
    completion_.lower();
    return {};
  }
  std::optional<connection_event> next_connection_event() override {
    if (connection_events.empty()) return std::nullopt;
    const auto event = connection_events.front();
    connection_events.pop_front();
    return event;
  }
  post_outcome post_sends(std::span<const send_request> requests) override {
    std::size_t count = 0;
    for (const auto& [frame, is_signaled] : requests) {
      if (takes_only && *takes_only == 0) return {count, refusal()};
      if (takes_only) --*takes_only;
      posted_send one{.id = frame.id,
                      .bytes = {frame.bytes.begin(), frame.bytes.end()},
                      .is_signaled = is_signaled};
      one.bytes.insert(one.bytes.end(), frame.in_place.begin(), frame.in_place.end());
      sends.push_back(std::move(one));
      ++count;
    }
    return {count, std::nullopt};
  }
  post_outcome post_receives(std::span<const receive_request> requests) override {
    if (refuses_receives) return {0, refusal()};
    receives.insert(receives.end(), requests.begin(), requests.end());
    return {requests.size(), std::nullopt};
  }
  rdmaxx::result<void> post_probe() override {
    if (refuses_probes) return refusal();
    ++probes;
    sends.push_back({.id = probe_id, .is_signaled = true});
    return {};
  }
  void disconnect() override { ++disconnects; }
  void flush_requests() override {
    ++flushes;
    if (loses_flushes) return;
    fail_sends(IBV_WC_WR_FLUSH_ERR);
    flush_receives();
  }
  void destroy_queue_pair() override { has_queue_pair_ = false; }
  [[nodiscard]] bool has_queue_pair() const override { return has_queue_pair_; }
  [[nodiscard]] int completion_fd() const override { return completion_.fd(); }
  [[nodiscard]] int connection_fd() const override { return connection_.fd(); }

 private:
  static std::size_t index(queue which) { return which == queue::sends ? 0 : 1; }
  static rdmaxx::error refusal() { return rdmaxx::errno_error("ibv_post", ENOMEM); }

  void complete(queue which, std::uint64_t id, ibv_wc_status status, std::size_t bytes) {
    ibv_wc one{};
    one.wr_id = id;
    one.status = status;
    one.byte_len = static_cast<std::uint32_t>(bytes);
    completions_[index(which)].push_back(one);
    if (!is_armed[index(which)] || std::exchange(has_raised_[index(which)], true)) return;
    events_.push_back(which);
    completion_.raise();
  }
  void take_sends(ibv_wc_status status) {
    for (; !sends.empty(); sends.pop_front()) {
      if (status == IBV_WC_SUCCESS && !sends.front().is_signaled) continue;
      complete(queue::sends, sends.front().id, status, 0);
      if (status != IBV_WC_SUCCESS) status = IBV_WC_WR_FLUSH_ERR;
    }
  }

  rdmaxx::stream_protocol::agreement terms_;
  std::uint32_t send_buffers_;
  std::vector<std::byte> control_;
  std::vector<std::byte> send_memory_;
  std::vector<std::byte> receive_memory_;
  rdmaxx::stream_protocol::send_pool send_pool_;
  rdmaxx::stream_protocol::receive_pool receive_pool_;
  std::deque<ibv_wc> completions_[2];
  std::deque<queue> events_;
  std::array<bool, 2> has_raised_{};  // its event waits
  bool has_queue_pair_ = true;
  raised_descriptor completion_;
  raised_descriptor connection_;
};

}  // namespace rdmaxx_test
