#include <rdmaxx/verbs/wait_completions.hpp>

#include <array>

#include <fmt/format.h>

namespace RDMAXX_NAMESPACE {

result<void> detail::sleep_on(const completion_channel& channel,
                              library_clock::time_point deadline) {
  RDMAXX_TRY(wait_readable_until(channel.fd(), deadline));
  return discard_events(channel);
}

result<void> detail::discard_events(const completion_channel& channel) {
  for (;;) {  // each answers a req_notify(), which will be called again
    RDMAXX_TRY(const auto event, channel.try_get_event());
    if (!event) return {};
  }
}

error detail::no_completion(std::chrono::milliseconds waited, std::string_view where) {
  return timed_out_error("wait_completions", waited, fmt::format("a completion on {}", where),
                         "check that the peer is alive and has posted its receives");
}

result<std::span<work_completion>> wait_completions(
    const completion_queue& cq, std::span<work_completion> into,
    std::optional<std::chrono::milliseconds> timeout, spin_policy& spin) {
  std::span<work_completion> found;
  RDMAXX_TRY(const bool has_found,
             detail::wait_on(cq, detail::wait_end(timeout), spin, [&]() -> result<bool> {
               RDMAXX_TRY(found, cq.poll(into));
               return !found.empty();
             }));
  if (!has_found && timeout) return detail::no_completion(*timeout, describe(cq));
  return found;
}

result<std::span<work_completion>> wait_completions(
    const completion_queue& cq, std::span<work_completion> into,
    std::optional<std::chrono::milliseconds> timeout, std::chrono::microseconds spin) {
  spin_policy fixed(spin);
  return wait_completions(cq, into, timeout, fixed);
}

result<work_completion> wait_completion(const completion_queue& cq,
                                        std::optional<std::chrono::milliseconds> timeout,
                                        std::chrono::microseconds spin) {
  std::array<work_completion, 1> one;
  RDMAXX_TRY(const auto found, wait_completions(cq, one, timeout, spin));
  return found.front();
}

}  // namespace RDMAXX_NAMESPACE
