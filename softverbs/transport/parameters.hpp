// What a queue pair of the transport is made of, and what its two ends have agreed on.
#pragma once

#include <cstddef>
#include <cstdint>

#include <transport/front_end.hpp>
#include <transport/memory_domain.hpp>
#include <transport/memory_keys.hpp>
#include <transport/service.hpp>

namespace softverbs::transport {

/// Fixed when the queue pair is made.
struct configuration {
  service kind = service::rc;
  std::uint32_t qpn = 0;
  memory_domain domain{};
  bool shares_receives = false;  ///< with others, in a shared receive queue
};

/// Set by transitions of the state (table 91), in the units of the specification.
struct parameters {
  std::uint32_t destination_qpn = 0;
  std::uint32_t qkey = 0;
  std::size_t mtu = 256;
  unsigned rights = 0;       ///< access::… that the peer has
  std::uint8_t timeout = 0;  ///< 4.096 µs · 2^timeout; 0: never
  std::uint8_t retry_count = 0;
  std::uint8_t rnr_retry = 0;  ///< 7: without end
  std::uint8_t min_rnr_timer = 0;
  std::uint8_t max_rd_atomic = 0;       ///< reads and atomics that this side may ask for at once
  std::uint8_t max_dest_rd_atomic = 0;  ///< that the peer may ask for at once
};

/// What both halves of a queue pair look at; nothing of it belongs to them.
struct surroundings {
  const configuration& made;
  const parameters& agreed;
  memory_keys& memory;
  front_end& front;
};

}  // namespace softverbs::transport
