#pragma once

// stream_group: streams that share completion queues, descriptors and memory, for programs with
// many of them.
//
//   auto group = stream_group::create({.streams = 4000}).value();
//   auto l = stream_listener::listen("0.0.0.0:7471", {.group = group}).value();
//   auto s = stream::connect("10.0.0.7:7471", {.group = group}).value();
//
// A stream without a group has its own queues, three descriptors and more than a megabyte of
// memory. A stream of a group has no descriptor and, while idle, 4 receive buffers; a busy one
// borrows spare buffers of the group. Its frames are smaller, so a stream without a group moves
// bulk data faster.
//
// The group creates its resources with the first stream on a device, once for each device and at
// full size: memory for all `streams` is registered then. On a device without shared receive queues
// its streams have resources of their own.
//
// Peers: a peer that sends more than it was granted is disconnected. Until that is noticed, it
// takes receive buffers that others need, and with iWARP their connections may end. Share a group
// only among equally trusted peers.
//
// Lifetime: copies share one group; streams keep the parts alive that they use. Threads: any. The
// streams of a group on one device share one lock, and one thread at a time polls for all of them:
// programs with many busy streams and many cores use several groups.

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
  /// The maximum at a time, on each device.
  std::uint32_t streams = 256;
  /// The size of each send and receive buffer, including a frame's header of 16 bytes.
  std::uint32_t buffer_bytes = 4096;
  /// How many data frames a peer may always send: receive buffers in addition to two for control
  /// frames.
  std::uint32_t idle_credits = 2;
  /// How many more buffers one busy stream may use, for sending and for receiving.
  std::uint32_t busy_buffers = 16;
  /// Spare receive buffers for busy streams, and send buffers, for all streams together.
  std::uint32_t spare_receive_buffers = 256;
  std::uint32_t send_buffers = 256;
  /// Frames up to this size are sent inline, within the limit of the device.
  std::uint32_t inline_bytes = 64;

  /// The error (misuse) names the limit that is exceeded.
  [[nodiscard]] result<void> check() const;
};
[[nodiscard]] std::string describe(const stream_group_config& config);

class stream_group {
 public:
  /// No group: streams have their own resources.
  stream_group() noexcept = default;
  [[nodiscard]] static result<stream_group> create(const stream_group_config& config = {});

  explicit operator bool() const noexcept { return groups_ != nullptr; }
  /// Streams that use it now, including those being connected.
  [[nodiscard]] std::size_t streams() const;
  /// Bytes of registered memory on all devices together.
  [[nodiscard]] std::size_t registered_bytes() const;

 private:
  friend class detail::stream_groups;
  std::shared_ptr<detail::stream_groups> groups_;
};
/// "stream group: 12 of at most 256 streams, 4718592 bytes"
[[nodiscard]] std::string describe(const stream_group& group);

}  // namespace RDMAXX_NAMESPACE
