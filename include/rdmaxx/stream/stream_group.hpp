#pragma once

// stream_group: streams that share completion queues, descriptors and memory, for programs with
// many of them.
//
//   auto group = stream_group::create({.streams = 4000}).value();
//   auto l = stream_listener::listen("0.0.0.0:7471", {.group = group}).value();
//   auto s = stream::connect("10.0.0.7:7471", {.group = group}).value();
//
// A stream alone has its own queues, three descriptors and more than a megabyte of memory. One of a
// group has no descriptor and, while it is idle, 4 receive buffers; a busy one gets more buffers
// from what the group has to spare, and gives them back. Frames are smaller than those of a stream
// alone, so that one stream alone is faster at moving bulk.
//
// The group makes its resources when the first stream on a device comes up, once for each device,
// at their full size: memory for all `streams` is registered then. On a device without shared
// receive queues its streams have resources of their own.
//
// Peers: a stream is told what it may send, and whoever sends more is disconnected. Until that is
// noticed, such a peer takes receive buffers that others need, and with iWARP their connections may
// end. Share a group only between peers that are equally trusted.
//
// Lifetime: copies share one group; streams keep what they use of it alive.
// Threads: any. The streams of a group on one device share one lock, and one thread at a time
// polls for all of them: programs with many busy streams and many cores use several groups.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include <rdmaxx/core/result.hpp>
#include <rdmaxx/core/text.hpp>

namespace RDMAXX_NAMESPACE {

namespace detail {
class stream_groups;
}

struct stream_group_config {
  /// On each device, at a time.
  std::uint32_t streams = 256;
  /// Of each send and receive buffer, a frame's header of 16 bytes included.
  std::uint32_t buffer_bytes = 4096;
  /// The frames that a peer may always send: receive buffers, beside two for control frames.
  std::uint32_t idle_credits = 2;
  /// So many buffers more, for sending and for receiving, may one stream use while it is busy.
  std::uint32_t busy_buffers = 16;
  /// Receive buffers for those that are busy, and send buffers, for all streams together.
  std::uint32_t spare_receive_buffers = 256;
  std::uint32_t send_buffers = 256;
  /// Frames up to this size are copied into the send request, as far as the device can.
  std::uint32_t inline_bytes = 64;

  /// An error (misuse) names the limit that does not hold.
  [[nodiscard]] result<void> check() const;
};
[[nodiscard]] std::string describe(const stream_group_config& config);

class stream_group {
 public:
  /// No group: a stream with this has its own resources.
  stream_group() noexcept = default;
  [[nodiscard]] static result<stream_group> create(const stream_group_config& config = {});

  explicit operator bool() const noexcept { return groups_ != nullptr; }
  /// Streams that use it now, those that are being connected included.
  [[nodiscard]] std::size_t streams() const;
  /// Bytes of registered memory, on all devices.
  [[nodiscard]] std::size_t registered_bytes() const;

 private:
  friend class detail::stream_groups;
  std::shared_ptr<detail::stream_groups> groups_;
};
/// "stream group: 12 of at most 256 streams, 4718592 bytes"
[[nodiscard]] std::string describe(const stream_group& group);

}  // namespace RDMAXX_NAMESPACE
