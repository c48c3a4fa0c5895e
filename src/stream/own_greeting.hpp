#pragma once

// own_greeting: the greeting of a stream with these options.

#include <rdmaxx/stream/greeting.hpp>
#include <rdmaxx/stream/stream_options.hpp>

namespace RDMAXX_NAMESPACE::detail {

/// The first sequence number is random, so that a frame of another connection is detected.
[[nodiscard]] stream_protocol::greeting own_greeting(const stream_options& options);

}  // namespace RDMAXX_NAMESPACE::detail
