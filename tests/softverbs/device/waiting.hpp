#pragma once

// waiting: for what a test expects, late to give up and without a guessed sleep.

#include <chrono>
#include <cstddef>
#include <vector>

#include <infiniband/verbs.h>

namespace softverbs::device_tests {

inline constexpr std::chrono::seconds patience{20};

/// The next `count` completions, good or bad; throws if they do not come.
[[nodiscard]] std::vector<ibv_wc> wait_for(ibv_cq* cq, std::size_t count);
[[nodiscard]] ibv_wc wait_for_one(ibv_cq* cq);
/// The next completions, of which none may have failed; throws otherwise.
std::vector<ibv_wc> wait_for_successes(ibv_cq* cq, std::size_t count);
ibv_wc wait_for_success(ibv_cq* cq);
/// What is there now.
[[nodiscard]] std::vector<ibv_wc> completions_in(ibv_cq* cq);

[[nodiscard]] bool is_readable(int fd);
/// Throws if it does not become readable.
void wait_until_readable(int fd);

/// The next asynchronous event, to be acknowledged by the caller; throws if there is none or it is
/// another one.
[[nodiscard]] ibv_async_event wait_for_event(ibv_context* context, ibv_event_type wanted);
/// Takes and acknowledges everything that is there.
void discard_events(ibv_context* context);

}  // namespace softverbs::device_tests
