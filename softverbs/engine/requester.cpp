#include <engine/requester.hpp>

#include <algorithm>
#include <array>
#include <cstring>

#include <base/log.hpp>
#include <engine/queue_pair.hpp>

namespace softverbs::engine {
namespace {

using wire::operation;

// All 24-bit PSNs lie above this in 64 bits, so that nothing becomes negative.
constexpr std::uint64_t psn_origin = std::uint64_t{1} << 32;
// What one call sends before others get their turn.
constexpr std::size_t burst_bytes = std::size_t{256} * 1024;
// A longer read is asked for in pieces, of this size at least where the window allows it: its
// answers would overflow the socket of the one who asks.
constexpr std::size_t smallest_piece = std::size_t{64} * 1024;
// How long a sender without acknowledgements waits for the receiver's flow control.
constexpr auto flow_control_patience = std::chrono::milliseconds(100);

// Where round trips are shorter than this, the timeout depends on the granularity alone: one packet
// in so many is timed.
constexpr auto short_round_trip = std::chrono::milliseconds(1);
constexpr unsigned packets_per_sample = 16;

/// Table 45: the 5-bit code of the receiver-not-ready timer, in units of 10 µs.
constexpr std::array<unsigned, 32> rnr_timer_units{
    65536, 1,    2,    3,    4,    6,     8,     12,    16,    24,   32,
    48,    64,   96,   128,  192,  256,   384,   512,   768,   1024, 1536,
    2048,  3072, 4096, 6144, 8192, 12288, 16384, 24576, 32768, 49152};

std::uint64_t packets_of(std::uint64_t bytes, std::size_t mtu) {
  return bytes == 0 ? 1 : (bytes + mtu - 1) / mtu;
}

/// The opcodes of a message by the place of a packet in it.
struct message_operations {
  operation first;
  operation middle;
  operation last;
  operation only;
};

message_operations operations_of(ibv_wr_opcode opcode) {
  switch (opcode) {
    case IBV_WR_SEND_WITH_IMM:
      return {operation::send_first, operation::send_middle, operation::send_last_immediate,
              operation::send_only_immediate};
    case IBV_WR_SEND_WITH_INV:
      return {operation::send_first, operation::send_middle, operation::send_last_invalidate,
              operation::send_only_invalidate};
    case IBV_WR_RDMA_WRITE:
      return {operation::write_first, operation::write_middle, operation::write_last,
              operation::write_only};
    case IBV_WR_RDMA_WRITE_WITH_IMM:
      return {operation::write_first, operation::write_middle, operation::write_last_immediate,
              operation::write_only_immediate};
    default:
      return {operation::send_first, operation::send_middle, operation::send_last,
              operation::send_only};
  }
}

operation send_operation(ibv_wr_opcode opcode, bool first, bool last) {
  const auto operations = operations_of(opcode);
  if (first) return last ? operations.only : operations.first;
  return last ? operations.last : operations.middle;
}

/// The pieces of [offset, offset + bytes) of a request's payload, with its memory located.
class payload_pieces {
 public:
  static constexpr std::size_t most = 64;  // what SOFTVERBS_MAX_SGE can be

  /// False if a key or a bound forbids it.
  bool collect(const memory_table::use& memory, const ibv_pd* pd, const ibv_sge* elements,
               unsigned count, std::uint64_t offset, std::uint64_t bytes, unsigned access) {
    size_ = 0;
    for (unsigned i = 0; i < count && bytes > 0; ++i) {
      if (offset >= elements[i].length) {
        offset -= elements[i].length;
        continue;
      }
      const auto here = std::min<std::uint64_t>(bytes, elements[i].length - offset);
      auto* const found = memory.locate({.key = elements[i].lkey,
                                         .pd = pd,
                                         .address = elements[i].addr + offset,
                                         .bytes = here,
                                         .access = access});
      if (found == nullptr) return false;
      pieces_[size_++] = {.iov_base = found, .iov_len = here};
      bytes -= here;
      offset = 0;
    }
    return bytes == 0;
  }
  void set(std::byte* data, std::size_t bytes) {
    size_ = bytes == 0 ? 0 : 1;
    pieces_[0] = {.iov_base = data, .iov_len = bytes};
  }
  [[nodiscard]] std::span<const iovec> get() const { return {pieces_.data(), size_}; }

 private:
  std::array<iovec, most> pieces_;
  std::size_t size_ = 0;
};

}  // namespace

bool requester::is_reliable() const {
  return qp_.made.type != IBV_QPT_UC && qp_.made.type != IBV_QPT_UD;
}

void requester::reset(std::uint32_t first_psn) {
  unacknowledged_ = next_ = highest_ = assigned_ = psn_origin + (first_psn & wire::psn_mask);
  cursor_ = qp_.sends.tail();
  reads_.clear();
  piece_ends_.clear();
  asked_again_ = 0;
  window_ = {};
  since_ack_request_ = 0;
  round_trip_ = {};
  timer_ = {};
  smoothed_at_ = {};
  not_timed_ = 0;
  probed_from_.reset();
  retries_left_ = qp_.attributes.retry_cnt;
  rnr_retries_left_ = qp_.attributes.rnr_retry;
  stop_timers();
  rnr_until_ = time_point::min();
  room_at_ = never;
  blocked_ = neighbour_is_gone_ = false;
}

std::uint64_t requester::extend(std::uint32_t psn) const {
  const auto near = static_cast<std::uint32_t>(unacknowledged_) & wire::psn_mask;
  return unacknowledged_ +
         static_cast<std::uint64_t>(static_cast<std::int64_t>(wire::psn_distance(near, psn)));
}

clock::duration requester::acknowledge_timeout() const {
  // 9.7.6.1.3: 4.096 µs · 2^timeout is the shortest time; the timer may take up to four times it.
  return std::chrono::nanoseconds(std::int64_t{4096} << qp_.attributes.timeout);
}

time_point requester::next_deadline() const {
  auto earliest = std::min(retransmit_at_, probe_at_);
  if (rnr_until_ != time_point::min()) earliest = std::min(earliest, rnr_until_);
  earliest = std::min(earliest, room_at_);
  return earliest;
}

std::size_t requester::under_way() const { return (next_ - unacknowledged_) * qp_.mtu(); }

bool requester::window_is_open(std::size_t bytes) const {
  return window_.has_room(under_way(), bytes);
}

bool requester::has_room(const route& way) {
  if (way.has_room(qp_.mtu())) {
    blocked_ = neighbour_is_gone_ = false;
    room_wait_.reset();
    return true;
  }
  if (neighbour_is_gone_) return true;
  // The neighbour may have died: the timers run.
  blocked_ = true;
  if (room_at_ == never) room_at_ = clock::now() + room_wait_.next();
  return false;
}

void requester::log_totals() const {
  if (sent_ == 0) return;
  log(log_level::info, "queue pair {:#x}: {} packets of requests sent, {} of them again",
      qp_.where->qpn, sent_, sent_again_);
}

bool requester::is_idle() const {
  return qp_.sends.is_empty() || !qp_.sends[qp_.sends.tail()].started;
}

bool requester::pump() {
  if (qp_.context.place->is_frozen()) return false;
  // 10.3.1.7: in SQD what was begun is brought to its end.
  if (qp_.attributes.qp_state != IBV_QPS_RTS && qp_.attributes.qp_state != IBV_QPS_SQD)
    return false;
  return is_reliable() ? pump_reliable() : pump_unreliable();
}

bool requester::begin(send_work& work, std::uint64_t index, const memory_table::use& memory) {
  if (qp_.attributes.qp_state == IBV_QPS_SQD) return false;
  if ((work.flags & IBV_SEND_FENCE) != 0 && !reads_.empty()) return false;
  work.started = true;
  work.done = false;
  work.first_psn = assigned_;
  if (work.is_local()) {
    work.last_psn = assigned_ - 1;
    return true;
  }
  if (!local_memory_is_good(work, index, memory)) work.failed = IBV_WC_LOC_PROT_ERR;
  // The peer allows none: it would wait for ever.
  if ((work.is_read() || work.is_atomic()) && qp_.attributes.max_rd_atomic == 0)
    work.failed = IBV_WC_LOC_QP_OP_ERR;
  assigned_ += work.is_atomic() ? 1 : packets_of(work.bytes, qp_.mtu());
  work.last_psn = assigned_ - 1;
  return true;
}

bool requester::local_memory_is_good(const send_work& work, std::uint64_t index,
                                     const memory_table::use& memory) {
  if (work.inline_data) return true;
  const unsigned access =
      work.is_read() || work.is_atomic() ? unsigned{IBV_ACCESS_LOCAL_WRITE} : 0U;
  payload_pieces pieces;
  return pieces.collect(memory, qp_.made.pd, qp_.sends.elements(index), work.elements, 0,
                        work.bytes, access);
}

void requester::carry_out(send_work& work) {
  work.done = true;
  auto& memory = qp_.context.memory;
  if (work.opcode == IBV_WR_LOCAL_INV) {
    if (!memory.invalidate(work.immediate, qp_.made.pd, qp_.where->qpn))
      work.failed = IBV_WC_MW_BIND_ERR;
    return;
  }
  const int failure = memory.bind({.window = work.window,
                                   .region = work.region,
                                   .region_key = work.region_key,
                                   .rkey = work.rkey,
                                   .address = work.bind_address,
                                   .bytes = work.bind_bytes,
                                   .access = work.bind_access,
                                   .pd = qp_.made.pd,
                                   .qpn = qp_.where->qpn});
  if (failure != 0) work.failed = IBV_WC_MW_BIND_ERR;
}

bool requester::pump_reliable() {
  if (qp_.connected == nullptr) return false;
  if (rnr_until_ != time_point::min()) return false;
  if (next_ == unacknowledged_ && window_.bytes() > send_window::first &&
      clock::now() - last_active_ > round_trip_.timeout_without_backoff()) {
    window_.restart_after_pause();
    round_trip_.forget_shortest();
  }
  bool more = false;
  {
    // What has been located stays registered until it has been sent: destroyed in reverse order.
    std::optional<memory_table::use> memory(qp_.context.memory);
    sender out(*qp_.connected, qp_.origin);
    while (cursor_ < qp_.sends.head()) {
      auto& work = qp_.sends[cursor_];
      if (!work.started && !begin(work, cursor_, *memory)) break;
      if (work.failed != IBV_WC_SUCCESS) break;
      if (work.is_local()) {
        if (!work.done) {
          out.flush();
          memory.reset();
          carry_out(work);
          memory.emplace(qp_.context.memory);
        }
        if (work.failed != IBV_WC_SUCCESS) break;
        ++cursor_;
        continue;
      }
      if (out.bytes() >= burst_bytes) {
        more = true;
        break;
      }
      const bool finished = send_some(out, work, cursor_, *memory);
      if (work.failed != IBV_WC_SUCCESS) break;
      if (!finished) {
        more = out.bytes() >= burst_bytes;
        break;
      }
      ++cursor_;
    }
  }
  highest_ = std::max(highest_, next_);
  if ((next_ != unacknowledged_ || blocked_) && probe_at_ == never) start_timers();
  complete_local_work();
  // A request that cannot be sent fails when all before it are complete.
  if (!qp_.sends.is_empty()) {
    auto& oldest = qp_.sends[qp_.sends.tail()];
    if (oldest.started && oldest.failed != IBV_WC_SUCCESS) fail_oldest(oldest.failed);
  }
  return more && qp_.attributes.qp_state != IBV_QPS_ERR;
}

bool requester::send_some(sender& out, send_work& work, std::uint64_t index,
                          const memory_table::use& memory) {
  const auto mtu = qp_.mtu();
  if (work.is_read() || work.is_atomic()) {
    while (next_ <= work.last_psn) {
      if (reads_.size() >= qp_.attributes.max_rd_atomic) return false;
      if (work.is_atomic()) {
        send_atomic(out, work);
      } else {
        // It is the answers that are under way.
        if (!window_is_open((end_of_piece(work) - next_) * mtu)) return false;
        send_read_request(out, work);
      }
    }
    return true;
  }
  while (next_ <= work.last_psn) {
    if (!window_.admits(under_way(), mtu) || out.bytes() >= burst_bytes ||
        !has_room(*qp_.connected)) {
      break;
    }
    // An acknowledgement at the end of a message, and often enough to keep the window moving.
    if (!send_packet(out, work, index, memory, next_ == work.last_psn, true)) break;
  }
  return next_ > work.last_psn;
}

wire::headers requester::message_header(const send_work& work) const {
  const bool last = next_ == work.last_psn;
  const bool datagrams = qp_.made.type == IBV_QPT_UD;
  wire::headers header{.service = qp_.service(),
                       .op = send_operation(work.opcode, next_ == work.first_psn, last),
                       .destination_qpn = datagrams ? work.remote_qpn : qp_.attributes.dest_qp_num,
                       .psn = next_psn()};
  header.solicited = last && (work.flags & IBV_SEND_SOLICITED) != 0;
  header.xrc_srqn = work.xrc_srqn;
  // 3.5.3: a Q_Key with the highest bit set stands for the queue pair's own.
  header.qkey = (work.remote_qkey & 0x8000'0000U) != 0 ? qp_.attributes.qkey : work.remote_qkey;
  header.source_qpn = qp_.where->qpn;
  header.remote_address = work.remote_address;
  header.rkey = work.rkey;
  header.dma_length = static_cast<std::uint32_t>(work.bytes);
  header.immediate = work.immediate;
  header.invalidate_rkey = work.immediate;
  return header;
}

bool requester::send_packet(sender& out, send_work& work, std::uint64_t index,
                            const memory_table::use& memory, bool acknowledge, bool paced) {
  const auto mtu = qp_.mtu();
  const auto offset = (next_ - work.first_psn) * mtu;
  const auto bytes = std::min<std::uint64_t>(mtu, work.bytes - offset);
  payload_pieces pieces;
  if (work.inline_data) {
    pieces.set(qp_.sends.inline_data(index) + offset, bytes);
  } else if (!pieces.collect(memory, qp_.made.pd, qp_.sends.elements(index), work.elements, offset,
                             bytes, 0)) {
    work.failed = IBV_WC_LOC_PROT_ERR;
    return false;
  }
  auto header = message_header(work);
  count_packet(next_);
  ++next_;
  since_ack_request_ += mtu;
  header.ack_request =
      acknowledge ||
      (paced && (since_ack_request_ >= window_.ack_interval() || !window_is_open(mtu)));
  if (header.ack_request) since_ack_request_ = 0;
  // The very first sample is worth having even if the answer to a later packet brings it.
  if (header.ack_request || !round_trip_.is_known()) time_packet(next_ - 1);
  out.add(header, pieces.get());
  return true;
}

std::uint64_t requester::end_of_piece(const send_work& work) const {
  const auto mtu = qp_.mtu();
  const auto share = window_.bytes() / std::max<std::size_t>(qp_.attributes.max_rd_atomic, 1);
  const auto bytes = std::min(std::max(share, smallest_piece), window_.bytes());
  auto end = std::min(next_ + std::max<std::size_t>(bytes / mtu, 1), work.last_psn + 1);
  const auto known = std::ranges::lower_bound(piece_ends_, next_);
  if (known != piece_ends_.end()) end = std::min(end, *known + 1);
  return end;
}

void requester::send_read_request(sender& out, const send_work& work) {
  const auto mtu = qp_.mtu();
  const auto offset = (next_ - work.first_psn) * mtu;
  const auto end = end_of_piece(work);
  const auto bytes = std::min<std::uint64_t>((end - work.first_psn) * mtu, work.bytes) - offset;
  wire::headers header{.service = qp_.service(),
                       .op = operation::read_request,
                       .ack_request = true,
                       .destination_qpn = qp_.attributes.dest_qp_num,
                       .psn = next_psn()};
  header.xrc_srqn = work.xrc_srqn;
  header.remote_address = work.remote_address + offset;
  header.rkey = work.rkey;
  header.dma_length = static_cast<std::uint32_t>(bytes);
  out.add(header, {});
  count_packet(next_);
  time_packet(next_);
  reads_.push_back({.first = next_, .last = end - 1});
  if (next_ >= highest_) piece_ends_.push_back(end - 1);
  next_ = end;
  since_ack_request_ = 0;
}

void requester::send_atomic(sender& out, const send_work& work) {
  wire::headers header{.service = qp_.service(),
                       .op = work.opcode == IBV_WR_ATOMIC_CMP_AND_SWP ? operation::compare_swap
                                                                      : operation::fetch_add,
                       .ack_request = true,
                       .destination_qpn = qp_.attributes.dest_qp_num,
                       .psn = next_psn()};
  header.xrc_srqn = work.xrc_srqn;
  header.remote_address = work.remote_address;
  header.rkey = work.rkey;
  if (work.opcode == IBV_WR_ATOMIC_CMP_AND_SWP) {
    header.compare = work.compare_or_add;
    header.swap_or_add = work.swap;
  } else {
    header.swap_or_add = work.compare_or_add;
  }
  out.add(header, {});
  count_packet(next_);
  time_packet(next_);
  reads_.push_back({.first = next_, .last = next_});
  ++next_;
}

// --- answers ---------------------------------------------------------------------------------

void requester::time_packet(std::uint64_t psn) {
  // Karn's rule: nothing that was sent before.
  if (psn < highest_ || !timer_.has_room(psn, window_.bytes() / packet_timer::most / qp_.mtu()))
    return;
  if (round_trip_.is_known() && round_trip_.smoothed() < short_round_trip &&
      ++not_timed_ < packets_per_sample)
    return;
  not_timed_ = 0;
  timer_.sent(psn, clock::now());
}

// When the end of a burst is lost, no later packet makes the peer complain, and the timeout of the
// queue pair may be long. So the peer is probed when an answer should have come, then after twice
// the time, and so on. Only the timeout of the queue pair counts as a retry.
void requester::start_timers() {
  last_active_ = clock::now();
  probe_at_ = last_active_ + round_trip_.timeout();
  if (qp_.attributes.timeout == 0) return;
  // 9.7.6.1.3: 4.096 µs · 2^timeout is the shortest time; the timer may take up to four times it,
  // which a path that is longer than its user thought may need.
  const auto shortest = acknowledge_timeout();
  retransmit_at_ = last_active_ + std::clamp<clock::duration>(round_trip_.timeout_without_backoff(),
                                                              shortest, 4 * shortest);
}

void requester::stop_timers() { retransmit_at_ = probe_at_ = never; }

void requester::progress_made(std::uint64_t before) {
  if (qp_.attributes.qp_state == IBV_QPS_ERR) return;  // a completion queue has overflowed
  const auto mtu = qp_.mtu();
  if (const auto sent = timer_.answered_before(unacknowledged_)) {
    const auto now = clock::now();
    // Averages are made of one sample for each round trip (RFC 7323, appendix G).
    if (*sent >= smoothed_at_) {
      round_trip_.sample(now - *sent);
      smoothed_at_ = now;
    } else {
      round_trip_.answered(now - *sent);
    }
  } else {
    round_trip_.answered();
  }
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
  window_.acknowledged((unacknowledged_ - before) * mtu, (next_ - before) * mtu,
                       round_trip_.queue_builds_up());
  while (!piece_ends_.empty() && piece_ends_.front() < unacknowledged_) piece_ends_.pop_front();
  retries_left_ = qp_.attributes.retry_cnt;
  rnr_retries_left_ = qp_.attributes.rnr_retry;
  if (next_ != unacknowledged_) {
    start_timers();
  } else {
    stop_timers();
  }
}

void requester::complete_oldest(ibv_wc_status status) {
  qp_.complete_oldest_send(status);
  cursor_ = std::max(cursor_, qp_.sends.tail());
}

void requester::complete_local_work() {
  while (!qp_.sends.is_empty()) {
    const auto& oldest = qp_.sends[qp_.sends.tail()];
    if (!oldest.started || !oldest.is_local() || !oldest.done) return;
    if (oldest.failed != IBV_WC_SUCCESS) return;
    complete_oldest(IBV_WC_SUCCESS);
  }
}

bool requester::acknowledge_through(std::uint64_t psn) {
  const auto before = unacknowledged_;
  bool whole = true;
  while (!qp_.sends.is_empty() && unacknowledged_ <= psn) {
    const auto& oldest = qp_.sends[qp_.sends.tail()];
    if (!oldest.started) break;
    if (oldest.is_local()) {
      if (!oldest.done || oldest.failed != IBV_WC_SUCCESS) break;
      complete_oldest(IBV_WC_SUCCESS);
      continue;
    }
    if (oldest.is_read() || oldest.is_atomic()) {
      whole = false;  // its answer should have come before this
      break;
    }
    unacknowledged_ = std::min(psn, oldest.last_psn) + 1;
    if (oldest.last_psn <= psn) complete_oldest(IBV_WC_SUCCESS);
  }
  complete_local_work();
  if (unacknowledged_ != before) progress_made(before);
  return whole;
}

void requester::go_back_to(std::uint64_t psn) {
  next_ = psn;
  cursor_ = qp_.sends.tail();
  while (cursor_ < qp_.sends.head() && qp_.sends[cursor_].started &&
         (qp_.sends[cursor_].is_local() ? qp_.sends[cursor_].done
                                        : qp_.sends[cursor_].last_psn < psn)) {
    ++cursor_;
  }
  std::erase_if(reads_, [psn](const outstanding_read& each) { return each.last >= psn; });
  since_ack_request_ = 0;
  timer_.forget_from(psn);
  probed_from_.reset();
}

bool requester::count_retry(std::uint64_t psn) {
  if (retries_left_ == 0) {
    fail_at(psn, IBV_WC_RETRY_EXC_ERR);
    return false;
  }
  // 7 is not special here (unlike rnr_retry): it is the most that three bits hold.
  --retries_left_;
  stop_timers();
  return true;
}

void requester::retry_from(std::uint64_t psn) {
  if (!count_retry(psn)) return;
  window_.lost(qp_.mtu());
  go_back_to(psn);
}

void requester::answer_was_lost() {
  // The answers behind the lost one are still coming in, and each of them says the same.
  if (asked_again_ == unacknowledged_) return;
  asked_again_ = unacknowledged_;
  retry_from(unacknowledged_);
}

void requester::probe() {
  round_trip_.back_off();
  window_.timed_out(qp_.mtu());
  // A responder that is asked for a read again forgets what it had still to answer.
  const bool over_reads = !reads_.empty();
  const auto from = probed_from_.value_or(place{.next = next_, .cursor = cursor_});
  go_back_to(unacknowledged_);
  if (!over_reads) probed_from_ = from;
}

void requester::fail_oldest(ibv_wc_status status) {
  complete_oldest(status);
  qp_.enter_error();
}

void requester::fail_at(std::uint64_t psn, ibv_wc_status status) {
  static_cast<void>(acknowledge_through(psn - 1));
  if (!qp_.sends.is_empty() && qp_.sends[qp_.sends.tail()].started) complete_oldest(status);
  qp_.enter_error();
}

void requester::on_acknowledge(const wire::headers& header) {
  const auto psn = extend(header.psn);
  if (psn < unacknowledged_ || psn >= highest_) {
    // 9.7.5.1.1: an answer to something that is not outstanding is a ghost of the past. A NAK may
    // name the first PSN that was never sent.
    if (wire::is_ack(header.syndrome) || psn != highest_) return;
  }
  if (wire::is_ack(header.syndrome)) {
    if (!acknowledge_through(psn)) answer_was_lost();
    return;
  }
  if (!acknowledge_through(psn - 1)) {
    answer_was_lost();
    return;
  }
  if (wire::is_rnr(header.syndrome)) {
    if (qp_.attributes.rnr_retry != 7) {  // 7: without end (9.7.5.2.8)
      if (rnr_retries_left_ == 0) {
        fail_at(psn, IBV_WC_RNR_RETRY_EXC_ERR);
        return;
      }
      --rnr_retries_left_;
    }
    stop_timers();
    go_back_to(psn);
    rnr_until_ =
        clock::now() + std::chrono::microseconds(10) * rnr_timer_units[header.syndrome & 0x1f];
    return;
  }
  if (!wire::is_nak(header.syndrome)) return;
  switch (static_cast<wire::nak>(header.syndrome & 0x1f)) {
    case wire::nak::sequence:
      if (psn < highest_) retry_from(psn);
      return;
    case wire::nak::invalid_request:
      fail_at(psn, IBV_WC_REM_INV_REQ_ERR);
      return;
    case wire::nak::remote_access:
      fail_at(psn, IBV_WC_REM_ACCESS_ERR);
      return;
    case wire::nak::remote_operational:
      fail_at(psn, IBV_WC_REM_OP_ERR);
      return;
  }
}

void requester::on_read_response(const wire::packet& response) {
  const auto psn = extend(response.header.psn);
  if (psn < unacknowledged_ || psn >= next_) return;
  if (psn > unacknowledged_ && !acknowledge_through(psn - 1)) {
    answer_was_lost();
    return;
  }
  if (qp_.sends.is_empty()) return;
  const auto index = qp_.sends.tail();
  auto& work = qp_.sends[index];
  if (!work.started || !work.is_read() || psn != unacknowledged_ || psn < work.first_psn ||
      psn > work.last_psn)
    return;
  const auto offset = (psn - work.first_psn) * qp_.mtu();
  const auto expected = std::min<std::uint64_t>(qp_.mtu(), work.bytes - offset);
  if (response.payload.size() != expected) {
    fail_at(psn, IBV_WC_BAD_RESP_ERR);
    return;
  }
  {
    const memory_table::use memory(qp_.context.memory);
    payload_pieces pieces;
    if (!pieces.collect(memory, qp_.made.pd, qp_.sends.elements(index), work.elements, offset,
                        expected, IBV_ACCESS_LOCAL_WRITE)) {
      work.failed = IBV_WC_LOC_PROT_ERR;
    } else {
      const auto* from = response.payload.data();
      for (const auto& piece : pieces.get()) {
        std::memcpy(piece.iov_base, from, piece.iov_len);
        from += piece.iov_len;
      }
    }
  }
  if (work.failed != IBV_WC_SUCCESS) {
    fail_oldest(work.failed);
    return;
  }
  unacknowledged_ = psn + 1;
  while (!reads_.empty() && reads_.front().last <= psn) reads_.pop_front();
  if (psn == work.last_psn) {
    complete_oldest(IBV_WC_SUCCESS);
    complete_local_work();
  }
  progress_made(psn);
}

void requester::on_atomic_acknowledge(const wire::headers& header) {
  const auto psn = extend(header.psn);
  if (psn < unacknowledged_ || psn >= next_) return;
  if (psn > unacknowledged_ && !acknowledge_through(psn - 1)) {
    answer_was_lost();
    return;
  }
  if (qp_.sends.is_empty()) return;
  const auto index = qp_.sends.tail();
  auto& work = qp_.sends[index];
  if (!work.started || !work.is_atomic() || psn != work.first_psn) return;
  {
    const memory_table::use memory(qp_.context.memory);
    payload_pieces pieces;
    if (pieces.collect(memory, qp_.made.pd, qp_.sends.elements(index), work.elements, 0,
                       sizeof header.original, IBV_ACCESS_LOCAL_WRITE)) {
      const auto* from = reinterpret_cast<const std::byte*>(&header.original);
      for (const auto& piece : pieces.get()) {
        std::memcpy(piece.iov_base, from, piece.iov_len);
        from += piece.iov_len;
      }
    } else {
      work.failed = IBV_WC_LOC_PROT_ERR;
    }
  }
  if (work.failed != IBV_WC_SUCCESS) {
    fail_oldest(work.failed);
    return;
  }
  unacknowledged_ = psn + 1;
  while (!reads_.empty() && reads_.front().last <= psn) reads_.pop_front();
  complete_oldest(IBV_WC_SUCCESS);
  complete_local_work();
  progress_made(psn);
}

void requester::on_timer(time_point now) {
  if (rnr_until_ != time_point::min() && now >= rnr_until_) rnr_until_ = time_point::min();
  if (now >= room_at_) room_at_ = never;
  if (unacknowledged_ == next_ && !blocked_) {
    stop_timers();
    return;
  }
  if (now >= retransmit_at_) {
    stop_timers();
    if (is_reliable()) {
      if (count_retry(unacknowledged_)) probe();
    } else {
      unacknowledged_ = next_;  // the receiver does not answer: go on without it
      neighbour_is_gone_ = blocked_;
    }
  } else if (now >= probe_at_ && is_reliable()) {
    probe();
    probe_at_ = now + round_trip_.timeout();
  }
}

// --- UC and UD -------------------------------------------------------------------------------

void requester::on_flow_control(std::uint32_t psn) {
  const auto taken = extend(psn);
  if (taken < unacknowledged_ || taken >= next_) return;
  unacknowledged_ = taken + 1;
  retransmit_at_ = next_ != unacknowledged_ ? clock::now() + flow_control_patience : never;
}

bool requester::pump_unreliable() {
  const auto mtu = qp_.mtu();
  const bool datagrams = qp_.made.type == IBV_QPT_UD;
  std::size_t sent = 0;
  while (!qp_.sends.is_empty()) {
    const auto index = qp_.sends.tail();
    auto& work = qp_.sends[index];
    if (!work.started && !begin(work, index, memory_table::use(qp_.context.memory))) return false;
    if (work.is_local()) {
      if (!work.done) carry_out(work);
      const auto status = work.failed;
      complete_oldest(status);
      if (status == IBV_WC_SUCCESS) continue;
      qp_.enter_send_error();
      return false;
    }
    if (work.failed == IBV_WC_SUCCESS && datagrams && work.bytes > mtu)
      work.failed = IBV_WC_LOC_LEN_ERR;
    if (work.failed != IBV_WC_SUCCESS) {
      complete_oldest(work.failed);
      qp_.enter_send_error();
      return false;
    }
    const auto to = datagrams ? qp_.route_to(work.to, work.remote_qpn) : qp_.connected;
    bool finished = true;
    if (to != nullptr) {
      // Flow control works between devices of this kind on one host; a network just loses packets.
      const bool controlled = to->same_host;
      if (!controlled) unacknowledged_ = next_;
      const memory_table::use memory(qp_.context.memory);
      sender out(*to, qp_.origin);
      while (next_ <= work.last_psn) {
        if ((controlled && (!window_.admits(under_way(), mtu) || !has_room(*to))) ||
            sent + out.bytes() >= burst_bytes) {
          finished = false;
          break;
        }
        if (!send_packet(out, work, index, memory, false, controlled)) break;
      }
      sent += out.bytes() + 1;
      out.flush();
      if (controlled && (next_ != unacknowledged_ || blocked_) && retransmit_at_ == never) {
        retransmit_at_ = clock::now() + flow_control_patience;
      }
    } else {
      next_ = work.last_psn + 1;  // no way there: lost
      unacknowledged_ = next_;
    }
    highest_ = std::max(highest_, next_);
    if (work.failed != IBV_WC_SUCCESS) continue;
    if (!finished) return sent >= burst_bytes;
    complete_oldest(IBV_WC_SUCCESS);
  }
  return false;
}

}  // namespace softverbs::engine
