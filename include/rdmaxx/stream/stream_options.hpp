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
  /// The default timeout of close().
  static constexpr std::chrono::milliseconds default_close_timeout = std::chrono::seconds(10);

  /// The receive buffers, and so the most that the peer can have sent and this side not read. 64
  /// KiB plus a header, because programs often write a fraction or a multiple of 64 KiB.
  stream_protocol::receive_window window{
      .buffers = 16, .buffer_bytes = 65536 + stream_protocol::frame_header_bytes};
  /// The send buffers, and so the most that write() accepts before the peer has room.
  std::uint32_t send_buffers = 4;
  std::uint32_t send_buffer_bytes = 65536 + stream_protocol::frame_header_bytes;
  /// Frames up to this size are sent inline, within the limit of the device.
  std::uint32_t inline_bytes = 220;

  /// How long a call that has to wait polls before it sleeps. About as long as a wake-up takes:
  /// short waits avoid the wake-up, and long ones cost at most twice as much.
  std::chrono::microseconds spin{100};
  /// How long a small write may wait to be gathered with others while earlier ones are in flight;
  /// 0: not at all.
  std::chrono::microseconds gather{1000};

  std::optional<std::chrono::milliseconds> read_timeout = forever;
  std::optional<std::chrono::milliseconds> write_timeout = forever;
  /// When connecting, for all steps together; when accepting, from the peer's request on.
  std::chrono::milliseconds connect_timeout = std::chrono::seconds(10);
  /// How long the destructor of a stream that was not closed waits for written bytes to arrive.
  std::chrono::milliseconds linger = std::chrono::seconds(1);
  /// How often the peer's device is probed while a call waits and nothing else is in flight; 0:
  /// never. A device that does not answer is noticed within `keep_alive` and `keep_alive_timeout`
  /// together, or earlier if the transport gives up earlier; the stream then fails with
  /// EHOSTUNREACH. NICs answer by themselves, even for a program that hangs; on iWARP the probe
  /// succeeds until TCP gives up.
  std::chrono::milliseconds keep_alive{0};
  /// How long the peer's device may stay silent while something is in flight, if keep_alive is not
  /// 0. It should be longer than the transport takes to retransmit lost packets.
  std::chrono::milliseconds keep_alive_timeout = std::chrono::seconds(2);

  /// Streams of a group share queues and memory; the group then determines the window, the send
  /// buffers and the inline size.
  stream_group group{};

  socket_address source{};  ///< local address to connect from; by the routing table if empty
  cm_id_options id{};

  /// The error (misuse) names the limit that is exceeded.
  [[nodiscard]] result<void> check() const;

  /// Polls for a long time, and gathers nothing.
  [[nodiscard]] static stream_options low_latency();
  /// Sleeps at once, and gathers small writes.
  [[nodiscard]] static stream_options low_cpu();
};
[[nodiscard]] std::string describe(const stream_options& options);

}  // namespace RDMAXX_NAMESPACE
