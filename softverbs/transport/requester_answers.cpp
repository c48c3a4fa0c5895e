// What comes back from the peer, and what does not: acknowledgements, refusals, answers to reads
// and atomics, and timeouts.
#include <algorithm>
#include <array>
#include <chrono>

#include <transport/operations.hpp>
#include <transport/payload.hpp>
#include <transport/requester.hpp>

namespace softverbs::transport {
namespace {

/// Table 45: the 5-bit code of the receiver-not-ready timer, in units of 10 µs.
constexpr std::array<unsigned, 32> rnr_timer_units{
    65536, 1,    2,    3,    4,    6,     8,     12,    16,    24,   32,
    48,    64,   96,   128,  192,  256,   384,   512,   768,   1024, 1536,
    2048,  3072, 4096, 6144, 8192, 12288, 16384, 24576, 32768, 49152};

constexpr std::uint8_t code_mask = 0x1f;  // of a syndrome
constexpr std::uint8_t rnr_without_end = 7;

}  // namespace

void requester::progress_made(std::uint64_t before) {
  if (failure_ != failure::none) return;  // a completion was lost
  timers_.answered_before(unacknowledged_, [this] { return around_.front.now(); });
  if (probed_from_) {
    // More has arrived than was sent again: what was sent before was only late.
    if (unacknowledged_ > next_ || unacknowledged_ >= highest_) window_.nothing_was_lost();
    if (unacknowledged_ > next_) {
      next_ = std::max(next_, probed_from_->next);
      cursor_ = std::max(cursor_, probed_from_->cursor);
    }
    probed_from_.reset();
  }
  next_ = std::max(next_, unacknowledged_);
  window_.acknowledged((unacknowledged_ - before) * mtu(), (next_ - before) * mtu(),
                       timers_.path().queue_builds_up());
  while (!piece_ends_.empty() && piece_ends_.front() < unacknowledged_) piece_ends_.pop_front();
  retries_left_ = around_.agreed.retry_count;
  rnr_retries_left_ = around_.agreed.rnr_retry;
  if (next_ != unacknowledged_) {
    start_timers();
  } else {
    timers_.stop();
  }
}

void requester::complete_oldest(status result) {
  // Out of the queue first: it is complete, whatever becomes of its completion.
  auto& oldest = sends_.oldest();
  oldest.started = false;
  sends_.pop();
  if (!around_.front.complete(oldest, result)) failure_ = failure::queue_pair;
  cursor_ = std::max(cursor_, sends_.tail());
}

void requester::complete_local_work() {
  while (!sends_.is_empty() && failure_ == failure::none) {
    const auto& oldest = sends_.oldest();
    if (!oldest.started || !oldest.is_local() || !oldest.done) return;
    if (oldest.failed != status::success) return;
    complete_oldest(status::success);
  }
}

bool requester::acknowledge_through(std::uint64_t psn) {
  const auto before = unacknowledged_;
  bool whole = true;
  while (!sends_.is_empty() && unacknowledged_ <= psn && failure_ == failure::none) {
    const auto& oldest = sends_.oldest();
    if (!oldest.started) break;
    if (oldest.is_local()) {
      if (!oldest.done || oldest.failed != status::success) break;
      complete_oldest(status::success);
      continue;
    }
    if (oldest.is_read() || oldest.is_atomic()) {
      whole = false;  // its answer should have come before this
      break;
    }
    unacknowledged_ = std::min(psn, oldest.last_psn) + 1;
    if (oldest.last_psn <= psn) complete_oldest(status::success);
  }
  complete_local_work();
  if (unacknowledged_ != before) progress_made(before);
  return whole;
}

void requester::go_back_to(std::uint64_t psn) {
  next_ = psn;
  cursor_ = sends_.tail();
  while (cursor_ < sends_.head() && sends_[cursor_].started &&
         (sends_[cursor_].is_local() ? sends_[cursor_].done : sends_[cursor_].last_psn < psn)) {
    ++cursor_;
  }
  std::erase_if(reads_, [psn](const outstanding_read& each) { return each.last >= psn; });
  since_ack_request_ = 0;
  timers_.forget_samples_from(psn);
  probed_from_.reset();
}

bool requester::count_retry(std::uint64_t psn) {
  if (retries_left_ == 0) {
    fail_at(psn, status::retries_exceeded);
    return false;
  }
  // 7 is not special here (unlike rnr_retry): it is the most that three bits hold.
  --retries_left_;
  timers_.stop();
  return true;
}

void requester::retry_from(std::uint64_t psn) {
  if (!count_retry(psn)) return;
  window_.lost(mtu());
  go_back_to(psn);
}

void requester::answer_was_lost() {
  // The answers behind the lost one are still coming in, and each of them says the same.
  if (asked_again_ == unacknowledged_) return;
  asked_again_ = unacknowledged_;
  retry_from(unacknowledged_);
}

void requester::probe(time_point now) {
  timers_.probing(now);
  window_.timed_out(mtu());
  // A responder that is asked for a read again forgets what it had still to answer.
  const bool over_reads = !reads_.empty();
  const auto from = probed_from_.value_or(place{.next = next_, .cursor = cursor_});
  go_back_to(unacknowledged_);
  if (!over_reads) probed_from_ = from;
}

void requester::fail_oldest(status result) {
  complete_oldest(result);
  failure_ = failure::queue_pair;
}

void requester::fail_at(std::uint64_t psn, status result) {
  static_cast<void>(acknowledge_through(psn - 1));
  if (failure_ != failure::none) return;
  if (!sends_.is_empty() && sends_.oldest().started) complete_oldest(result);
  failure_ = failure::queue_pair;
}

void requester::receiver_is_not_ready(std::uint64_t psn, std::uint8_t timer_code) {
  if (around_.agreed.rnr_retry != rnr_without_end) {  // 9.7.5.2.8
    if (rnr_retries_left_ == 0) {
      fail_at(psn, status::rnr_retries_exceeded);
      return;
    }
    --rnr_retries_left_;
  }
  timers_.stop();
  go_back_to(psn);
  rnr_until_ =
      around_.front.now() + std::chrono::microseconds(10) * rnr_timer_units[timer_code & code_mask];
}

void requester::on_acknowledge(const wire::headers& header) {
  const auto psn = extend(header.psn);
  if (psn < unacknowledged_ || psn >= highest_) {
    // 9.7.5.1.1: an answer to something that is not outstanding is a ghost of the past. A NAK may
    // name the first PSN that was never sent.
    if (wire::is_ack(header.syndrome) || psn != highest_) return;
  }
  const bool accepts = wire::is_ack(header.syndrome);
  if (!acknowledge_through(accepts ? psn : psn - 1)) {
    answer_was_lost();
    return;
  }
  if (accepts || failure_ != failure::none) return;
  if (wire::is_rnr(header.syndrome)) {
    receiver_is_not_ready(psn, header.syndrome);
    return;
  }
  if (!wire::is_nak(header.syndrome)) return;
  switch (static_cast<wire::nak>(header.syndrome & code_mask)) {
    case wire::nak::sequence:
      if (psn < highest_) retry_from(psn);
      return;
    case wire::nak::invalid_request:
      fail_at(psn, status::remote_invalid_request);
      return;
    case wire::nak::remote_access:
      fail_at(psn, status::remote_access_error);
      return;
    case wire::nak::remote_operational:
      fail_at(psn, status::remote_operation_error);
      return;
  }
}

bool requester::answers_are_complete_before(std::uint64_t psn) {
  if (psn > unacknowledged_ && !acknowledge_through(psn - 1)) {
    answer_was_lost();
    return false;
  }
  return !sends_.is_empty() && failure_ == failure::none;
}

void requester::take_answer(std::uint64_t psn, std::span<const std::byte> bytes,
                            std::uint64_t offset) {
  const auto& work = sends_.oldest();
  {
    const memory_keys::use memory(around_.memory);
    payload_pieces pieces;
    if (!pieces.collect(memory, around_.made.domain, elements_of(sends_.tail()), offset,
                        bytes.size(), access::local_write)) {
      fail_oldest(status::local_protection_error);
      return;
    }
    pieces.fill_from(bytes.data());
  }
  unacknowledged_ = psn + 1;
  while (!reads_.empty() && reads_.front().last <= psn) reads_.pop_front();
  if (psn == work.last_psn) {
    complete_oldest(status::success);
    complete_local_work();
  }
  progress_made(psn);
}

void requester::on_read_response(const wire::packet& response) {
  const auto psn = extend(response.header.psn);
  if (psn < unacknowledged_ || psn >= next_ || !answers_are_complete_before(psn)) return;
  const auto& work = sends_.oldest();
  if (!work.started || !work.is_read() || psn != unacknowledged_ || psn < work.first_psn ||
      psn > work.last_psn)
    return;
  const auto offset = (psn - work.first_psn) * mtu();
  if (response.payload.size() != std::min<std::uint64_t>(mtu(), work.bytes - offset)) {
    fail_at(psn, status::bad_response);
    return;
  }
  take_answer(psn, response.payload, offset);
}

void requester::on_atomic_acknowledge(const wire::headers& header) {
  const auto psn = extend(header.psn);
  if (psn < unacknowledged_ || psn >= next_ || !answers_are_complete_before(psn)) return;
  const auto& work = sends_.oldest();
  if (!work.started || !work.is_atomic() || psn != work.first_psn) return;
  take_answer(psn, std::as_bytes(std::span(&header.original, 1)), 0);
}

void requester::on_timer(time_point now) {
  if (rnr_until_ != time_point::min() && now >= rnr_until_) rnr_until_ = time_point::min();
  if (now >= room_at_) room_at_ = never;
  if (unacknowledged_ == next_ && !blocked_) {
    timers_.stop();
    return;
  }
  if (timers_.retry_is_due(now)) {
    timers_.stop();
    if (!is_reliable(around_.made.kind)) {
      unacknowledged_ = next_;  // the receiver does not answer: go on without it
      neighbour_is_gone_ = blocked_;
    } else if (count_retry(unacknowledged_)) {
      probe(now);
    }
  } else if (timers_.probe_is_due(now) && is_reliable(around_.made.kind)) {
    probe(now);
  }
}

}  // namespace softverbs::transport
