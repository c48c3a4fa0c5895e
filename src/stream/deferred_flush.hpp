#pragma once

// deferred_flush: sends bytes that writes could not send yet, if the program does not call again.
//
// One thread for the process, started when it is first needed, asleep when nothing is pending. It
// tries each connection after the time that its writes may wait, and then less and less often while
// the peer grants no credits.
//
// Lifetime: it refers to a connection until nothing is pending or the connection cancels, which it
// does before it is destroyed.

#include <chrono>

#include <rdmaxx/core/variant.hpp>

namespace RDMAXX_NAMESPACE::detail {

class stream_connection;

/// Keeps trying until nothing is pending. False if the thread cannot be started. The caller holds
/// the connection's lock.
[[nodiscard]] bool defer_flush(stream_connection& whose, std::chrono::microseconds after);

/// When it returns, nothing here refers to the connection any more. The caller does not hold its
/// lock.
void cancel_deferred_flush(stream_connection& whose);

}  // namespace RDMAXX_NAMESPACE::detail
