#pragma once

// stream_resources: the channel, completion queues and registered memory of one stream.
//
// Lifetime: outlives the queue pair, which the connection's identifier owns. Threads: those of its
// parts.

#include <rdmaxx/cm/cm_id.hpp>
#include <rdmaxx/core/result.hpp>
#include <rdmaxx/stream/stream_options.hpp>
#include <rdmaxx/verbs/completion_channel.hpp>
#include <rdmaxx/verbs/completion_queue.hpp>
#include <rdmaxx/verbs/memory_region.hpp>

namespace RDMAXX_NAMESPACE::detail {

struct stream_resources {
  completion_channel channel;
  completion_queue send_cq;
  completion_queue recv_cq;
  owned_region send_memory;
  owned_region receive_memory;

  /// Also creates a queue pair on the identifier and posts the receives that the greeting promises.
  [[nodiscard]] static result<stream_resources> for_id(const cm_id& id,
                                                       const stream_options& options);
};

}  // namespace RDMAXX_NAMESPACE::detail
