#pragma once

// stream_resources: the channel, completion queues, pools and registered memory of one stream, or
// of all streams of a group on one device.
//
// Lifetime: outlives the queue pairs, which the connections' identifiers own. It does not move,
// because engines refer to its pools. Threads: as for its parts; the pools one at a time.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include <rdmaxx/cm/cm_id.hpp>
#include <rdmaxx/core/result.hpp>
#include <rdmaxx/stream/receive_pool.hpp>
#include <rdmaxx/stream/send_pool.hpp>
#include <rdmaxx/verbs/completion_channel.hpp>
#include <rdmaxx/verbs/completion_queue.hpp>
#include <rdmaxx/verbs/context.hpp>
#include <rdmaxx/verbs/memory_region.hpp>
#include <rdmaxx/verbs/protection_domain.hpp>
#include <rdmaxx/verbs/shared_receive_queue.hpp>

namespace RDMAXX_NAMESPACE::detail {

struct stream_memory_sizes {
  std::uint32_t streams = 1;  ///< that share it
  std::uint32_t receive_buffers = 0;
  std::uint32_t spare_receive_buffers = 0;  ///< of these
  std::uint32_t receive_buffer_bytes = 0;
  std::uint32_t send_buffers = 0;
  std::uint32_t send_buffer_bytes = 0;
};

/// What the queue pair of one stream needs besides the shared resources.
struct stream_queue_sizes {
  std::uint32_t send_buffers = 0;     ///< that it may have in flight
  std::uint32_t receive_buffers = 0;  ///< 0: it receives from the shared receive queue
  std::uint32_t inline_bytes = 0;
};

class stream_resources {
 public:
  /// With several streams there is a shared receive queue, to which all buffers are posted.
  [[nodiscard]] static result<std::unique_ptr<stream_resources>> create(
      const context& device, const stream_memory_sizes& sizes);
  /// For one stream: creates the identifier's queue pair and posts all buffers to it.
  [[nodiscard]] static result<std::unique_ptr<stream_resources>> for_id(
      const cm_id& id, const stream_memory_sizes& sizes, std::uint32_t inline_bytes);
  stream_resources(const stream_resources&) = delete;
  stream_resources& operator=(const stream_resources&) = delete;
  ~stream_resources() = default;

  [[nodiscard]] result<void> create_qp(const cm_id& id, const stream_queue_sizes& sizes) const;
  /// Memory for the small frames of one of the streams.
  [[nodiscard]] std::span<std::byte> control_memory(std::size_t stream) const noexcept;

  const protection_domain pd;
  const completion_channel channel;
  const completion_queue send_cq;
  const completion_queue recv_cq;
  const shared_receive_queue srq;  ///< empty for a stream without a group
  const owned_region send_memory;  ///< the streams' control memory, then the send buffers
  const owned_region receive_memory;
  stream_protocol::send_pool sends;
  stream_protocol::receive_pool receives;

 private:
  struct parts;
  stream_resources(parts made, const stream_memory_sizes& sizes);
};

}  // namespace RDMAXX_NAMESPACE::detail
