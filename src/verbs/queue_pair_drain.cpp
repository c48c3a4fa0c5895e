// The blocking form of queue_drain.

#include <array>
#include <cerrno>
#include <chrono>
#include <thread>

#include <fmt/format.h>

#include <rdmaxx/core/clock.hpp>
#include <rdmaxx/core/readiness.hpp>
#include <rdmaxx/verbs/queue_drain.hpp>
#include <rdmaxx/verbs/queue_pair.hpp>

namespace RDMAXX_NAMESPACE {

result<void> queue_pair::drain(const completion_sink& sink,
                               std::chrono::milliseconds timeout) const {
  const auto deadline = deadline_after(timeout);
  RDMAXX_TRY(auto draining, queue_drain::begin(*this));
  const auto hand_over = [&](const work_completion& completion) {
    if (!draining.recognise(completion) && sink) sink(completion);
  };
  constexpr std::size_t some = 16;
  while (!draining.is_done()) {
    RDMAXX_TRY(auto found, send_cq().poll_each(some, hand_over));
    if (recv_cq() != send_cq()) {
      RDMAXX_TRY(const auto more, recv_cq().poll_each(some, hand_over));
      found += more;
    }
    RDMAXX_TRY(draining.advance(found));
    if (draining.is_done()) break;
    if (library_clock::now() >= deadline) {
      return timed_out_error("queue_pair::drain", timeout,
                             fmt::format("queue pair {:#x} to flush its {} queue", number().value(),
                                         draining.awaited_queue()),
                             "another thread may be polling the completion queue");
    }
    if (found == 0) std::this_thread::yield();
  }
  return {};
}

}  // namespace RDMAXX_NAMESPACE
