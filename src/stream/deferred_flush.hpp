#pragma once

// deferred_flush: sends what writes have left behind when their program does not call again.
//
// One thread for the process, started when it is first needed, asleep when nothing is left. It
// looks at each connection after the time that its writes may wait, and then less and less often
// while a peer takes nothing.
//
// Lifetime: it refers to a connection until nothing is left or the connection cancels, which it
// does before its end.

#include <chrono>

#include <rdmaxx/core/variant.hpp>

namespace RDMAXX_NAMESPACE::detail {

class stream_connection;

/// Until nothing is left. False if there is no thread to be had. The caller holds the connection's
/// lock.
[[nodiscard]] bool defer_flush(stream_connection& whose, std::chrono::microseconds after);

/// When it returns, nothing refers to the connection any more. The caller does not hold its lock.
void cancel_deferred_flush(stream_connection& whose);

}  // namespace RDMAXX_NAMESPACE::detail
