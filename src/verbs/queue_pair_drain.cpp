// The orderly end of a queue pair: everything that was posted completes.
//
// Counting posts would cost the data path, so drain() lets the device count: it posts a marker
// behind everything else in each queue. Requests are flushed in order, so when the marker has
// completed, all have. The markers are posted in the error state, where nothing reaches the wire,
// and one after the other, when what was flushed before has been polled: a completion queue that
// is just large enough has room for one more only then.

#include <array>
#include <cerrno>
#include <chrono>
#include <optional>
#include <string>
#include <string_view>
#include <thread>

#include <fmt/format.h>

#include <rdmaxx/core/clock.hpp>
#include <rdmaxx/core/readiness.hpp>
#include <rdmaxx/verbs/address_handle.hpp>
#include <rdmaxx/verbs/pick_device.hpp>
#include <rdmaxx/verbs/queue_pair.hpp>

#include "qp_block.hpp"

namespace rdmaxx::inline v0 {

namespace {

using clock = library_clock;

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

/// Polls the completion queues of a queue pair and hands over all but the markers.
class drainage {
 public:
  drainage(const queue_pair& qp, const queue_pair::completion_sink& sink,
           clock::time_point deadline)
      : qp_(qp), sink_(sink), deadline_(deadline) {}

  /// Everything that has completed before the call. Neighbours may complete meanwhile, for ever, so
  /// that what the queues had room for is enough.
  [[nodiscard]] result<void> poll_present() {
    RDMAXX_TRY(poll_present(qp_.send_cq()));
    if (qp_.recv_cq() != qp_.send_cq()) RDMAXX_TRY(poll_present(qp_.recv_cq()));
    return {};
  }

  /// Until the marker has completed.
  [[nodiscard]] result<void> poll_until(wr_id marker, std::string_view queue) {
    awaited_ = marker;
    while (awaited_) {
      RDMAXX_TRY(auto found, poll(qp_.send_cq()));
      if (qp_.recv_cq() != qp_.send_cq()) {
        RDMAXX_TRY(const auto more, poll(qp_.recv_cq()));
        found += more;
      }
      if (!awaited_) break;
      if (clock::now() >= deadline_) {
        return errno_error("drain", ETIMEDOUT,
                           fmt::format("queue pair {:#x} has not flushed its {} queue",
                                       qp_.number().value(), queue),
                           "another thread may be polling the completion queue");
      }
      if (found == 0) std::this_thread::yield();
    }
    return {};
  }

 private:
  [[nodiscard]] result<std::size_t> poll(const completion_queue& cq) {
    std::array<work_completion, 16> completions;
    RDMAXX_TRY(const auto polled, cq.poll(completions));
    for (const auto& completion : polled) {
      if (completion.queue_pair() == qp_.number() && completion.id() == awaited_) {
        awaited_.reset();
      } else if (sink_) {
        sink_(completion);
      }
    }
    return polled.size();
  }

  [[nodiscard]] result<void> poll_present(const completion_queue& cq) {
    for (std::size_t seen = 0; seen < cq.capacity();) {
      RDMAXX_TRY(const auto found, poll(cq));
      if (found == 0) break;
      seen += found;
    }
    return {};
  }

  const queue_pair& qp_;
  const queue_pair::completion_sink& sink_;
  const clock::time_point deadline_;
  std::optional<wr_id> awaited_;
};

}  // namespace

result<void> queue_pair::drain(const completion_sink& sink,
                               std::chrono::milliseconds timeout) const {
  RDMAXX_TRY(const auto before, state());
  const bool iwarp = pd().context().transport() == transport_type::iwarp;
  // iWARP drivers may report reset always.
  if (before == qp_state::reset && !iwarp) return {};
  RDMAXX_TRY(to_error());

  drainage draining(*this, sink, deadline_after(timeout));
  RDMAXX_TRY(draining.poll_present());
  // iWARP devices flush while they change the state. siw would take a marker now, and never
  // complete it.
  if (iwarp) return {};

  // Addresses inside this queue pair's own block cannot be anybody else's idea of a wr_id for it.
  const auto unique = reinterpret_cast<std::uintptr_t>(&detail::block_of(*this));
  const wr_id send_marker(unique);
  const wr_id recv_marker(unique + 1);
  RDMAXX_TRY(const bool send_pending, marker_posted(post_send_marker(*this, send_marker)));
  if (send_pending) RDMAXX_TRY(draining.poll_until(send_marker, "send"));
  RDMAXX_TRY(const bool recv_pending, marker_posted(post(recv_wr{.id = recv_marker})));
  // Once more: rxe looks at its receive queue only when the state is set.
  if (const auto again = to_error(); !again && recv_pending) return again;
  if (recv_pending) RDMAXX_TRY(draining.poll_until(recv_marker, "recv"));
  // A device that refuses markers has flushed meanwhile.
  return draining.poll_present();
}

}  // namespace rdmaxx::inline v0
