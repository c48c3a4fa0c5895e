#pragma once

// stream_device: what a stream's driver asks of the device and the connection below it. Nothing
// here waits. A stream without a group has a verbs_stream_device, a stream of a group has a
// grouped_stream_device, and unit tests have a fake.
//
// Calls handle batches, so that not every request costs a virtual call. A driver never posts more
// sends than protocol_engine::most_in_flight() and one probe, nor more receives than its window.
//
// Threads: one at a time; the driver's caller ensures that.

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include <rdmaxx/core/error.hpp>
#include <rdmaxx/core/result.hpp>
#include <rdmaxx/stream/protocol_engine.hpp>
#include <rdmaxx/verbs/completion_queue.hpp>
#include <rdmaxx/verbs/work_completion.hpp>

namespace RDMAXX_NAMESPACE::detail {

class stream_device {
 public:
  enum class queue : std::uint8_t { sends, receives };
  enum class connection_event : std::uint8_t { disconnected, device_removed, other };

  /// The id of the probe's request; sends carry the frame's, which has 32 bits.
  static constexpr std::uint64_t probe_id = std::uint64_t{1} << 32;

  struct send_request {
    stream_protocol::outgoing_frame frame{};
    bool is_signaled = false;
  };
  struct receive_request {
    std::size_t buffer = 0;  ///< of the receive_pool
    std::span<std::byte> into{};
  };
  /// The first `count` requests were posted: all of them, unless there is a failure.
  struct post_outcome {
    std::size_t count = 0;
    std::optional<error> failure{};
  };

  stream_device() = default;
  stream_device(const stream_device&) = delete;
  stream_device& operator=(const stream_device&) = delete;
  virtual ~stream_device() = default;

  [[nodiscard]] virtual poll_result poll(queue which, std::span<work_completion> into) = 0;
  /// The next completion of that queue makes completion_fd() readable. False if it was already
  /// armed: its event is due, or pending there.
  [[nodiscard]] virtual result<bool> arm(queue which) = 0;
  /// Fetches the pending events of completion_fd(). Their queues are no longer armed.
  [[nodiscard]] virtual result<void> take_completion_events() = 0;
  /// Fetches a pending event of connection_fd().
  [[nodiscard]] virtual std::optional<connection_event> next_connection_event() = 0;

  [[nodiscard]] virtual post_outcome post_sends(std::span<const send_request> requests) = 0;
  [[nodiscard]] virtual post_outcome post_receives(std::span<const receive_request> requests) = 0;
  /// A write of no bytes: the peer's device acknowledges it without the peer's program.
  [[nodiscard]] virtual result<void> post_probe() = 0;

  /// Ends the connection; requests that have not completed are flushed.
  virtual void disconnect() = 0;
  /// Flushes the requests by moving the queue pair to the error state.
  virtual void flush_requests() = 0;
  /// For devices that lose requests instead of flushing them: without a queue pair, no memory is
  /// read.
  virtual void destroy_queue_pair() = 0;
  [[nodiscard]] virtual bool has_queue_pair() const = 0;

  [[nodiscard]] virtual int completion_fd() const = 0;
  [[nodiscard]] virtual int connection_fd() const = 0;
};

}  // namespace RDMAXX_NAMESPACE::detail
