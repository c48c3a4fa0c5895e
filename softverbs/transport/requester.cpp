#include <transport/requester.hpp>

#include <algorithm>

#include <transport/operations.hpp>
#include <transport/payload.hpp>

namespace softverbs::transport {
namespace {

// All 24-bit PSNs lie above this in 64 bits, so that nothing becomes negative.
constexpr std::uint64_t psn_origin = std::uint64_t{1} << 32;
// A longer read is asked for in pieces, of this size at least where the window allows it: its
// answers would overflow the socket of the one who asks.
constexpr std::size_t smallest_piece = std::size_t{64} * 1024;

}  // namespace

void requester::reset(std::uint32_t first_psn) {
  failure_ = failure::none;
  unacknowledged_ = next_ = highest_ = assigned_ = psn_origin + (first_psn & wire::psn_mask);
  cursor_ = sends_.tail();
  reads_.clear();
  piece_ends_.clear();
  asked_again_ = 0;
  window_ = {};
  since_ack_request_ = 0;
  timers_ = {};
  probed_from_.reset();
  retries_left_ = around_.agreed.retry_count;
  rnr_retries_left_ = around_.agreed.rnr_retry;
  rnr_until_ = time_point::min();
  room_at_ = never;
  blocked_ = neighbour_is_gone_ = false;
}

std::uint64_t requester::extend(std::uint32_t psn) const {
  const auto near = static_cast<std::uint32_t>(unacknowledged_) & wire::psn_mask;
  return unacknowledged_ +
         static_cast<std::uint64_t>(static_cast<std::int64_t>(wire::psn_distance(near, psn)));
}

time_point requester::next_deadline() const {
  auto earliest = std::min(timers_.next(), room_at_);
  if (rnr_until_ != time_point::min()) earliest = std::min(earliest, rnr_until_);
  return earliest;
}

std::size_t requester::under_way() const { return (next_ - unacknowledged_) * mtu(); }

bool requester::window_is_open(std::size_t bytes) const {
  return window_.has_room(under_way(), bytes);
}

bool requester::has_room(const packet_sink& out) {
  if (out.has_room(mtu())) {
    blocked_ = neighbour_is_gone_ = false;
    room_wait_.reset();
    return true;
  }
  if (neighbour_is_gone_) return true;
  // The neighbour may have died: the timers run.
  blocked_ = true;
  if (room_at_ == never) room_at_ = around_.front.now() + room_wait_.next();
  return false;
}

bool requester::is_idle() const { return sends_.is_empty() || !sends_[sends_.tail()].started; }

void requester::flush() {
  while (!sends_.is_empty()) complete_oldest(status::flushed);
}

bool requester::pump(bool may_begin) {
  if (around_.front.is_frozen() || failure_ != failure::none) return false;
  return is_reliable(around_.made.kind) ? pump_reliable(may_begin) : pump_unreliable(may_begin);
}

bool requester::begin(send_work& work, std::uint64_t index, const memory_keys::use& memory,
                      bool may_begin) {
  if (!may_begin) return false;
  if (work.fenced && !reads_.empty()) return false;
  work.started = true;
  work.done = false;
  work.first_psn = assigned_;
  if (work.is_local()) {
    work.last_psn = assigned_ - 1;
    return true;
  }
  if (!local_memory_is_good(work, index, memory)) work.failed = status::local_protection_error;
  // The peer allows none: it would wait for ever.
  if ((work.is_read() || work.is_atomic()) && around_.agreed.max_rd_atomic == 0)
    work.failed = status::local_operation_error;
  assigned_ += work.is_atomic() ? 1 : packets_of(work.bytes, mtu());
  work.last_psn = assigned_ - 1;
  return true;
}

bool requester::local_memory_is_good(const send_work& work, std::uint64_t index,
                                     const memory_keys::use& memory) {
  if (work.inline_data) return true;
  const unsigned rights = work.is_read() || work.is_atomic() ? access::local_write : 0U;
  payload_pieces pieces;
  return pieces.collect(memory, around_.made.domain, elements_of(index), 0, work.bytes, rights);
}

void requester::carry_out(send_work& work) {
  work.done = true;
  const bool succeeded =
      work.op == opcode::local_invalidate
          ? around_.memory.invalidate(work.immediate, around_.made.domain, around_.made.qpn)
          : around_.memory.bind({.window = work.window,
                                 .region = work.region,
                                 .region_key = work.region_key,
                                 .rkey = work.rkey,
                                 .address = work.bind_address,
                                 .bytes = work.bind_bytes,
                                 .rights = work.bind_access,
                                 .domain = around_.made.domain,
                                 .qpn = around_.made.qpn});
  if (!succeeded) work.failed = status::window_bind_error;
}

bool requester::pump_reliable(bool may_begin) {
  if (rnr_until_ != time_point::min()) return false;
  auto* const peer = around_.front.peer();
  if (peer == nullptr) return false;
  if (next_ == unacknowledged_ && window_.bytes() > send_window::first &&
      timers_.has_paused(around_.front.now())) {
    window_.restart_after_pause();
    timers_.path_was_empty();
  }
  bool more = false;
  {
    // What has been located stays registered until it has been sent.
    std::optional<memory_keys::use> memory(around_.memory);
    burst out{.out = *peer};
    while (cursor_ < sends_.head()) {
      auto& work = sends_[cursor_];
      if (!work.started && !begin(work, cursor_, *memory, may_begin)) break;
      if (work.failed != status::success) break;
      if (work.is_local()) {
        if (!work.done) {
          peer->flush();
          memory.reset();
          carry_out(work);
          memory.emplace(around_.memory);
        }
        if (work.failed != status::success) break;
        ++cursor_;
        continue;
      }
      if (out.is_full()) {
        more = true;
        break;
      }
      const bool finished = send_some(out, work, cursor_, *memory);
      if (work.failed != status::success) break;
      if (!finished) {
        more = out.is_full();
        break;
      }
      ++cursor_;
    }
    peer->flush();
  }
  highest_ = std::max(highest_, next_);
  if ((next_ != unacknowledged_ || blocked_) && !timers_.is_probing()) start_timers();
  complete_local_work();
  // A request that cannot be sent fails when all before it are complete.
  if (!sends_.is_empty() && failure_ == failure::none) {
    const auto& oldest = sends_.oldest();
    if (oldest.started && oldest.failed != status::success) fail_oldest(oldest.failed);
  }
  return more && failure_ == failure::none;
}

bool requester::send_some(burst& out, send_work& work, std::uint64_t index,
                          const memory_keys::use& memory) {
  if (work.is_read() || work.is_atomic()) {
    while (next_ <= work.last_psn) {
      if (reads_.size() >= around_.agreed.max_rd_atomic) return false;
      if (work.is_atomic()) {
        send_atomic(out, work);
      } else {
        // It is the answers that are under way.
        if (!window_is_open((end_of_piece(work) - next_) * mtu())) return false;
        send_read_request(out, work);
      }
    }
    return true;
  }
  while (next_ <= work.last_psn) {
    if (!window_.admits(under_way(), mtu()) || out.is_full() || !has_room(out.out)) break;
    // An acknowledgement at the end of a message, and often enough to keep the window moving.
    if (!send_packet(out, work, index, memory, next_ == work.last_psn, true)) break;
  }
  return next_ > work.last_psn;
}

wire::headers requester::message_header(const send_work& work) const {
  const bool last = next_ == work.last_psn;
  const bool datagrams = around_.made.kind == service::ud;
  wire::headers header{
      .service = on_the_wire(around_.made.kind),
      .op = message_operation(work.op, next_ == work.first_psn, last),
      .destination_qpn = datagrams ? work.remote_qpn : around_.agreed.destination_qpn,
      .psn = next_psn()};
  header.solicited = last && work.solicited;
  header.xrc_srqn = work.xrc_srqn;
  // 3.5.3: a Q_Key with the highest bit set stands for the queue pair's own.
  header.qkey = (work.remote_qkey & 0x8000'0000U) != 0 ? around_.agreed.qkey : work.remote_qkey;
  header.source_qpn = around_.made.qpn;
  header.remote_address = work.remote_address;
  header.rkey = work.rkey;
  header.dma_length = static_cast<std::uint32_t>(work.bytes);
  header.immediate = work.immediate;
  header.invalidate_rkey = work.immediate;
  return header;
}

bool requester::send_packet(burst& out, send_work& work, std::uint64_t index,
                            const memory_keys::use& memory, bool acknowledge, bool paced) {
  const auto offset = (next_ - work.first_psn) * mtu();
  const auto bytes = std::min<std::uint64_t>(mtu(), work.bytes - offset);
  payload_pieces pieces;
  if (work.inline_data) {
    pieces.set(sends_.inline_data(index) + offset, bytes);
  } else if (!pieces.collect(memory, around_.made.domain, elements_of(index), offset, bytes, 0)) {
    work.failed = status::local_protection_error;
    return false;
  }
  auto header = message_header(work);
  count_packet(next_);
  ++next_;
  since_ack_request_ += mtu();
  header.ack_request =
      acknowledge ||
      (paced && (since_ack_request_ >= window_.ack_interval() || !window_is_open(mtu())));
  if (header.ack_request) since_ack_request_ = 0;
  // The very first sample is worth having even if the answer to a later packet brings it.
  if (header.ack_request || !timers_.path().is_known()) time_packet(next_ - 1);
  out.bytes += bytes;
  out.out.add(header, pieces.get());
  return true;
}

std::uint64_t requester::end_of_piece(const send_work& work) const {
  const auto share = window_.bytes() / std::max<std::size_t>(around_.agreed.max_rd_atomic, 1);
  const auto bytes = std::min(std::max(share, smallest_piece), window_.bytes());
  auto end = std::min(next_ + std::max<std::size_t>(bytes / mtu(), 1), work.last_psn + 1);
  const auto known = std::ranges::lower_bound(piece_ends_, next_);
  if (known != piece_ends_.end()) end = std::min(end, *known + 1);
  return end;
}

void requester::send_read_request(burst& out, const send_work& work) {
  const auto offset = (next_ - work.first_psn) * mtu();
  const auto end = end_of_piece(work);
  const auto bytes = std::min<std::uint64_t>((end - work.first_psn) * mtu(), work.bytes) - offset;
  wire::headers header{.service = on_the_wire(around_.made.kind),
                       .op = operation::read_request,
                       .ack_request = true,
                       .destination_qpn = around_.agreed.destination_qpn,
                       .psn = next_psn()};
  header.xrc_srqn = work.xrc_srqn;
  header.remote_address = work.remote_address + offset;
  header.rkey = work.rkey;
  header.dma_length = static_cast<std::uint32_t>(bytes);
  out.out.add(header, {});
  count_packet(next_);
  time_packet(next_);
  reads_.push_back({.first = next_, .last = end - 1});
  const auto place_of_end = std::ranges::lower_bound(piece_ends_, end - 1);
  if (place_of_end == piece_ends_.end() || *place_of_end != end - 1)
    piece_ends_.insert(place_of_end, end - 1);
  next_ = end;
  since_ack_request_ = 0;
}

void requester::send_atomic(burst& out, const send_work& work) {
  const bool compares = work.op == opcode::compare_swap;
  wire::headers header{.service = on_the_wire(around_.made.kind),
                       .op = compares ? operation::compare_swap : operation::fetch_add,
                       .ack_request = true,
                       .destination_qpn = around_.agreed.destination_qpn,
                       .psn = next_psn()};
  header.xrc_srqn = work.xrc_srqn;
  header.remote_address = work.remote_address;
  header.rkey = work.rkey;
  header.swap_or_add = compares ? work.swap : work.compare_or_add;
  if (compares) header.compare = work.compare_or_add;
  out.out.add(header, {});
  count_packet(next_);
  time_packet(next_);
  reads_.push_back({.first = next_, .last = next_});
  ++next_;
}

void requester::time_packet(std::uint64_t psn) {
  // Karn's rule: nothing that was sent before.
  if (psn >= highest_)
    timers_.sent(psn, window_.bytes() / mtu(), [this] { return around_.front.now(); });
}

}  // namespace softverbs::transport
