#pragma once

// straggler_service: sends what writes have left behind when their program does not call again.
//
// One thread for the process, started when it is first needed, asleep when nobody has left
// anything. It looks at each conversation after the time that its writes may wait, and then less
// and less often while a peer takes nothing.

#include <chrono>
#include <memory>

namespace rdmaxx::inline v0::detail {

class conversation;

/// Until nothing is left, or the conversation has ended. False if there is no thread to be had.
[[nodiscard]] bool push_later(const std::shared_ptr<conversation>& whose,
                              std::chrono::microseconds after);

}  // namespace rdmaxx::inline v0::detail
