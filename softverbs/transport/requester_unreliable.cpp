// UC and UD: what has been sent is complete. Between processes of one host the receiver reports
// what it has taken, so that a fast sender waits instead of losing packets.
#include <algorithm>
#include <chrono>

#include <transport/operations.hpp>
#include <transport/requester.hpp>

namespace softverbs::transport {
namespace {

// How long a sender without acknowledgements waits for the receiver's flow control.
constexpr auto flow_control_patience = std::chrono::milliseconds(100);

}  // namespace

void requester::on_flow_control(std::uint32_t psn) {
  const auto taken = extend(psn);
  if (taken < unacknowledged_ || taken >= next_) return;
  unacknowledged_ = taken + 1;
  timers_.wait_until(next_ != unacknowledged_ ? around_.front.now() + flow_control_patience
                                              : never);
}

bool requester::pump_unreliable(bool may_begin) {
  const bool datagrams = around_.made.kind == service::ud;
  std::size_t sent = 0;
  while (!sends_.is_empty() && failure_ == failure::none) {
    const auto index = sends_.tail();
    auto& work = sends_[index];
    if (!work.started && !begin(work, index, memory_keys::use(around_.memory), may_begin))
      return false;
    if (work.is_local() && !work.done) carry_out(work);
    if (work.failed == status::success && datagrams && work.bytes > mtu())
      work.failed = status::local_length_error;
    if (work.failed != status::success) {
      complete_oldest(work.failed);
      failure_ = std::max(failure_, failure::send_queue);
      return false;
    }
    if (work.is_local()) {
      complete_oldest(status::success);
      continue;
    }
    auto* const to =
        datagrams ? around_.front.datagram_path(work.to, work.remote_qpn) : around_.front.peer();
    bool finished = true;
    if (to != nullptr) {
      // Flow control works between devices of this kind on one host; a network just loses packets.
      const bool controlled = to->is_flow_controlled();
      if (!controlled) unacknowledged_ = next_;
      const memory_keys::use memory(around_.memory);
      burst out{.out = *to};
      while (next_ <= work.last_psn) {
        if ((controlled && (!window_.admits(under_way(), mtu()) || !has_room(*to))) ||
            sent + out.bytes >= burst::most) {
          finished = false;
          break;
        }
        if (!send_packet(out, work, index, memory, false, controlled)) break;
      }
      sent += out.bytes + 1;
      to->flush();
      if (controlled && (next_ != unacknowledged_ || blocked_) && !timers_.is_waiting())
        timers_.wait_until(around_.front.now() + flow_control_patience);
    } else {
      next_ = work.last_psn + 1;  // no way there: lost
      unacknowledged_ = next_;
    }
    highest_ = std::max(highest_, next_);
    if (work.failed != status::success) continue;
    if (!finished) return sent >= burst::most;
    complete_oldest(status::success);
  }
  return false;
}

}  // namespace softverbs::transport
