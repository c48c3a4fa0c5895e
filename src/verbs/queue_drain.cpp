#include <rdmaxx/verbs/queue_drain.hpp>

#include <random>

#include <fmt/format.h>

#include <rdmaxx/verbs/address_handle.hpp>
#include <rdmaxx/verbs/pick_device.hpp>
#include <rdmaxx/verbs/queue_pair.hpp>

namespace RDMAXX_NAMESPACE {

namespace {

wr_id random_id() {
  std::random_device entropy;
  const std::uint64_t high = entropy();
  return wr_id(high << 32 | entropy());
}

/// True if a marker is in flight. Some devices refuse posts in the error state; they flush
/// synchronously, so everything is already in the completion queue. A full queue is a different
/// failure.
result<bool> marker_posted(const result<void>& posted) {
  if (posted) return true;
  if (posted.error() == std::errc::not_enough_memory)
    return posted.error().within("drain: posting its marker");
  return false;
}

result<void> post_to_send_queue(const queue_pair& qp, wr_id id) {
  if (qp.type() != qp_type::ud) return qp.post(send_wr{.id = id});
  // Datagram requests need an address handle, which providers read even though nothing is sent.
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

queue_drain::queue_drain(const queue_pair& qp) noexcept
    : qp_(&qp),
      number_(qp.number()),
      room_(qp.send_cq().capacity() +
            (qp.recv_cq() != qp.send_cq() ? qp.recv_cq().capacity() : 0U)) {}

result<queue_drain> queue_drain::begin(const queue_pair& qp) {
  queue_drain draining(qp);
  RDMAXX_TRY(const auto before, qp.state());
  const bool is_iwarp = qp.pd().context().transport() == transport_type::iwarp;
  // iWARP drivers may always report reset.
  if (before == qp_state::reset && !is_iwarp) {
    draining.phase_ = phase::done;
    return draining;
  }
  RDMAXX_TRY(qp.to_error());
  // iWARP devices flush while they change the state. siw would accept a marker now and never
  // complete it.
  draining.takes_markers_ = !is_iwarp;
  return draining;
}

bool queue_drain::has_made_room(std::size_t found) noexcept {
  seen_ += found;
  if (found != 0 && seen_ < room_) return false;
  seen_ = 0;
  return true;
}

result<void> queue_drain::post_send_marker() {
  const auto id = random_id();
  RDMAXX_TRY(const bool is_pending, marker_posted(post_to_send_queue(*qp_, id)));
  if (is_pending) marker_ = id;
  phase_ = phase::send_marker;
  return {};
}

result<void> queue_drain::post_recv_marker() {
  const auto id = random_id();
  RDMAXX_TRY(const bool is_pending, marker_posted(qp_->post(recv_wr{.id = id})));
  if (is_pending) marker_ = id;
  phase_ = phase::recv_marker;
  // Again: rxe flushes its receive queue only when the state is set.
  if (const auto again = qp_->to_error(); !again && is_pending) return again;
  return {};
}

result<void> queue_drain::advance(std::size_t found) {
  if (phase_ == phase::making_room) {
    if (!has_made_room(found)) return {};
    if (!takes_markers_) {
      phase_ = phase::done;
      return {};
    }
    RDMAXX_TRY(post_send_marker());
  }
  if (phase_ == phase::send_marker && !marker_) RDMAXX_TRY(post_recv_marker());
  if (phase_ == phase::recv_marker && !marker_) {
    phase_ = phase::last_look;  // a device that refuses markers has flushed meanwhile
    return {};
  }
  if (phase_ == phase::last_look && has_made_room(found)) phase_ = phase::done;
  return {};
}

std::string describe(const queue_drain& draining) {
  return draining.is_done()
             ? "drain, done"
             : fmt::format("drain, waiting for the {} queue", draining.awaited_queue());
}

}  // namespace RDMAXX_NAMESPACE
