#pragma once

// stream_options: how a stream uses memory, the processor and time. The defaults suit most
// programs.
//
//   auto s = stream::connect("10.0.0.7:7471", {.read_timeout = 5s}).value();
//   auto options = stream_options::low_latency();

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>

#include <rdmaxx/cm/cm_id.hpp>
#include <rdmaxx/cm/socket_address.hpp>
#include <rdmaxx/core/readiness.hpp>
#include <rdmaxx/core/result.hpp>
#include <rdmaxx/stream/frame.hpp>
#include <rdmaxx/stream/greeting.hpp>
#include <rdmaxx/stream/stream_group.hpp>

namespace RDMAXX_NAMESPACE {

struct stream_options {
  /// For close(), if it is not told another one.
  static constexpr std::chrono::milliseconds default_close_timeout = std::chrono::seconds(10);

  /// The receive buffers, and so the most that the peer can have sent and this side not read.
  /// 64 KiB and a header: what programs write is often a part or a multiple of that.
  stream_protocol::receive_window window{
      .buffers = 16, .buffer_bytes = 65536 + stream_protocol::frame_header_bytes};
  /// The send buffers, and so the most that write() takes ahead of the peer.
  std::uint32_t send_buffers = 4;
  std::uint32_t send_buffer_bytes = 65536 + stream_protocol::frame_header_bytes;
  /// Frames up to this size are copied into the send request, as far as the device can.
  std::uint32_t inline_bytes = 220;

  /// How long a call that has to wait polls before it sleeps. As long as being woken takes: what
  /// comes soon is not missed, and what comes late costs at most twice.
  std::chrono::microseconds spin{100};
  /// How long a small write may wait for company while earlier ones are under way; 0: not at all.
  std::chrono::microseconds gather{1000};

  std::optional<std::chrono::milliseconds> read_timeout = forever;
  std::optional<std::chrono::milliseconds> write_timeout = forever;
  /// For connecting, all steps together; for accepting, after the peer has asked.
  std::chrono::milliseconds connect_timeout = std::chrono::seconds(10);
  /// How long the end of a stream that was not closed waits for what was written to arrive.
  std::chrono::milliseconds linger = std::chrono::seconds(1);
  /// While a call waits and nothing else is under way, the peer's device is asked for a sign of
  /// life this often; 0: never. A device that does not answer is noticed within `keep_alive` and
  /// `keep_alive_timeout` together, or earlier if the transport gives up earlier; the stream then
  /// fails with EHOSTUNREACH. NICs answer by themselves, also for a program that hangs; iWARP
  /// answers for itself as long as TCP has hope.
  std::chrono::milliseconds keep_alive{0};
  /// How long nothing may come back while something is under way, if keep_alive is not 0. It should
  /// be longer than the transport takes to repeat what was lost.
  std::chrono::milliseconds keep_alive_timeout = std::chrono::seconds(2);

  /// Streams of a group share queues and memory; the window, the send buffers and the bytes that go
  /// inline are the group's then.
  stream_group group{};

  socket_address source{};  ///< connecting: the own address to use; by the routing table if empty
  cm_id_options id{};

  /// An error (misuse) names the limit that does not hold.
  [[nodiscard]] result<void> check() const;

  /// Polls for long, and holds nothing back.
  [[nodiscard]] static stream_options low_latency();
  /// Sleeps at once, and gathers.
  [[nodiscard]] static stream_options low_cpu();
};
[[nodiscard]] std::string describe(const stream_options& options);

}  // namespace RDMAXX_NAMESPACE
