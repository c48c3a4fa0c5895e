// The orderly end of a queue pair: everything that was posted completes.
//
// Counting posts would cost the data path, so drain() lets the device count: it posts a marker
// behind everything else in each queue. Requests are flushed in order, so when the marker has
// completed, all have. The markers are posted in the error state, where nothing reaches the wire.

#include <array>
#include <cerrno>
#include <chrono>
#include <string>
#include <thread>

#include <fmt/format.h>

#include <rdmaxx/core/readiness.hpp>
#include <rdmaxx/verbs/address_handle.hpp>
#include <rdmaxx/verbs/pick_device.hpp>
#include <rdmaxx/verbs/queue_pair.hpp>

#include "qp_block.hpp"

namespace rdmaxx::inline v0 {

namespace {

using clock = std::chrono::steady_clock;

/// True if a marker is under way. Some devices refuse posts in the error state; they flush
/// synchronously, so what they had is already in the completion queue. A full queue is another
/// matter.
result<bool> marker_posted(const result<void>& posted) {
  if (posted) return true;
  if (posted.error() == std::errc::not_enough_memory)
    return posted.error().within("drain: posting its marker");
  return false;
}

result<void> post_send_marker(const queue_pair& qp, wr_id id) {
  if (qp.type() != qp_type::ud) return qp.post(send_wr{.id = id});
  // Datagram requests carry an address, which providers look into even though nothing will be sent.
  RDMAXX_TRY(const auto now, qp.query());
  const auto port = now.port.value_or(1);
  RDMAXX_TRY(const auto own, pick_gid(qp.pd().context(), port));
  RDMAXX_TRY(const auto self,
             qp.pd().create_ah({.port = port,
                                .destination = own.address,
                                .source_gid_index = static_cast<std::uint8_t>(own.index)}));
  return qp.post(ud_send_wr{.id = id, .to = self, .remote_queue_pair = qp.number()});
}

}  // namespace

result<void> queue_pair::drain(const completion_sink& sink,
                               std::chrono::milliseconds timeout) const {
  RDMAXX_TRY(const auto before, state());
  const bool iwarp = pd().context().transport() == transport_type::iwarp;
  // iWARP drivers may report reset always.
  if (before == qp_state::reset && !iwarp) return {};
  RDMAXX_TRY(to_error());

  // Addresses inside this queue pair's own block cannot be anybody else's idea of a wr_id for it.
  const auto unique = reinterpret_cast<std::uintptr_t>(&detail::block_of(*this));
  const wr_id send_marker(unique);
  const wr_id recv_marker(unique + 1);
  bool send_pending = false;
  bool recv_pending = false;
  // iWARP devices flush while they change the state. siw would take a marker now, and never
  // complete it.
  if (!iwarp) {
    RDMAXX_TRY(send_pending, marker_posted(post_send_marker(*this, send_marker)));
    RDMAXX_TRY(recv_pending, marker_posted(post(recv_wr{.id = recv_marker})));
    // Once more: rxe looks at its receive queue only when the state is set.
    if (const auto again = to_error(); !again && (send_pending || recv_pending)) return again;
  }

  const auto deadline = deadline_after(timeout);
  for (;;) {
    std::size_t found = 0;
    const auto poll_one = [&](const completion_queue& cq) -> result<void> {
      std::array<work_completion, 16> completions;
      RDMAXX_TRY(const auto polled, cq.poll(completions));
      found += polled.size();
      for (const auto& completion : polled) {
        if (completion.queue_pair() == number() && completion.id() == send_marker) {
          send_pending = false;
        } else if (completion.queue_pair() == number() && completion.id() == recv_marker) {
          recv_pending = false;
        } else if (sink) {
          sink(completion);
        }
      }
      return {};
    };
    RDMAXX_TRY(poll_one(send_cq()));
    if (recv_cq() != send_cq()) RDMAXX_TRY(poll_one(recv_cq()));
    if (found != 0) continue;
    if (!send_pending && !recv_pending) return {};
    if (clock::now() >= deadline) {
      return errno_error("drain", ETIMEDOUT,
                         fmt::format("queue pair {:#x} has not flushed its {} queue",
                                     number().value(), send_pending ? "send" : "recv"),
                         "another thread may be polling the completion queue");
    }
    std::this_thread::yield();
  }
}

}  // namespace rdmaxx::inline v0
