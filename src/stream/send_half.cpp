#include <rdmaxx/stream/send_half.hpp>

#include <cerrno>
#include <cstring>
#include <utility>

#include <fmt/format.h>

#include "core/big_endian.hpp"

namespace RDMAXX_NAMESPACE::stream_protocol {

static_assert(send_half::control_slot_bytes >= frame_header_bytes + reset_payload_bytes);

std::string describe(const outgoing_frame& frame) {
  return fmt::format("frame {}: {} bytes and {} in place", frame.id, frame.bytes.size(),
                     frame.in_place.size());
}

send_half::send_half(engine_core& core)
    : core_(&core),
      slots_(core.memory.send_buffers),
      copy_capacity_(std::min(core.memory.send->buffer_bytes(), core.terms.peer.buffer_bytes) -
                     static_cast<std::uint32_t>(frame_header_bytes)),
      next_sequence_(core.terms.own_first_sequence),
      peer_granted_(core.terms.own_first_sequence + core.terms.peer.credits()) {}

// --- writing -----------------------------------------------------------------------------------

// The last slot has not been handed out and has room.
bool send_half::has_open_slot() const noexcept {
  if (handed_ == written_) return false;
  const auto& last = slots_[index_of(written_ - 1)];
  return last.in_place.empty() && last.bytes < copy_capacity_;
}

std::size_t send_half::write(std::span<const std::byte> bytes) noexcept {
  if (!accepts_writes()) return 0;
  auto& numbers = core_->numbers;
  auto rest = bytes;
  while (!rest.empty()) {
    if (has_open_slot()) {
      if (rest.size() == bytes.size()) ++numbers.coalesced_writes;
    } else {
      if (!can_borrow()) break;
      slots_[index_of(written_++)] = {.begin = numbers.bytes_written, .buffer = pool().borrow()};
    }
    auto& last = slots_[index_of(written_ - 1)];
    const auto count = std::min<std::size_t>(rest.size(), copy_capacity_ - last.bytes);
    std::memcpy(memory_at(written_ - 1).data() + frame_header_bytes + last.bytes, rest.data(),
                count);
    last.bytes += static_cast<std::uint32_t>(count);
    numbers.bytes_written += count;
    rest = rest.subspan(count);
  }
  const auto taken = bytes.size() - rest.size();
  announced_ -= std::min<std::uint64_t>(announced_, taken);
  return taken;
}

std::size_t send_half::write_in_place(std::span<const std::byte> bytes,
                                      std::uint64_t tag) noexcept {
  if (bytes.empty() || !accepts_writes() || !can_borrow()) return 0;
  const auto taken = bytes.first(
      std::min<std::size_t>(bytes.size(), core_->terms.peer.buffer_bytes - frame_header_bytes));
  slots_[index_of(written_++)] = {.begin = core_->numbers.bytes_written,
                                  .buffer = pool().borrow(),
                                  .in_place = taken,
                                  .tag = tag};
  core_->numbers.bytes_written += taken.size();
  announced_ -= std::min<std::uint64_t>(announced_, taken.size());
  return taken.size();
}

result<void> send_half::check() const {
  if (core_->failure) return *core_->failure;
  switch (end_) {
    case write_end::open:
      break;
    case write_end::shut_down:
      return errno_error("writing to a stream", EPIPE, "this side has shut down writing",
                         "shut down only after the last write")
          .as(error_category::misuse);
    case write_end::stopped_by_peer:
      return error({.operation = "writing to a stream",
                    .code = std::make_error_code(std::errc::broken_pipe),
                    .category = error_category::peer,
                    .problem = "the peer has stopped reading",
                    .hint = "what the peer had not read by then is lost; keep reading, or close"});
  }
  return {};
}

void send_half::shutdown() noexcept {
  if (end_ == write_end::open) end_ = write_end::shut_down;
}

std::uint64_t send_half::released_position() const noexcept {
  if (released_ == written_) return core_->numbers.bytes_written;
  return slots_[index_of(released_)].begin;
}

void send_half::release_slots(std::uint64_t begin, std::uint64_t end) noexcept {
  for (; begin != end; ++begin) pool().give_back(slots_[index_of(begin)].buffer);
}

void send_half::drop_queued() noexcept {
  release_slots(handed_, written_);
  written_ = handed_;
  announced_ = 0;
  flush_ = false;
}

void send_half::leave() noexcept {
  drop_queued();
  release_slots(released_, handed_);
  released_ = handed_;
}

// --- frames ------------------------------------------------------------------------------------

// A partly filled slot waits for more while another one is in flight, unless it is needed now.
// After full slots it does not wait: it is the end of a large write.
bool send_half::may_leave(const grant& given) const noexcept {
  return written_ - handed_ > 1 || !has_open_slot() || flush_ || end_ != write_end::open ||
         small_ones_end_ <= released_ || given.is_due;
}

// What is queued here, and what a writer has announced.
std::uint8_t send_half::wanted() const noexcept {
  const auto frames = written_ - handed_ + (announced_ + copy_capacity_ - 1) / copy_capacity_;
  return static_cast<std::uint8_t>(std::min<std::uint64_t>(frames, 255));
}

/// Returns its id.
std::uint32_t send_half::stamp(frame_header header, const grant& given,
                               std::span<std::byte> into) noexcept {
  header.acknowledged = given.acknowledged;
  header.wanted = wanted();
  header.sequence = next_sequence_;
  header.granted = given.granted;
  encode(header, into.first<frame_header_bytes>());
  ++core_->numbers.frames_sent;
  if (header.kind == frame_kind::data) {
    ++next_sequence_;
  } else {
    ++control_sent_;
    if (header.kind == frame_kind::credit) last_credit_frame_ = control_sent_;
  }
  return next_id_++;
}

bool send_half::may_send_control(frame_kind kind) const noexcept {
  const auto unacknowledged = static_cast<std::uint8_t>(control_sent_ - control_acknowledged_);
  if (unacknowledged >= receive_window::control_buffers) return false;
  if (kind != frame_kind::credit) return true;
  // One credit frame at a time, so that there is always a buffer for a stop.
  const auto behind_it = static_cast<std::uint8_t>(control_sent_ - last_credit_frame_);
  return unacknowledged <= behind_it;
}

outgoing_frame send_half::next_bare(frame_header header, const grant& given) noexcept {
  const auto index = control_handed_++ % control_slots;
  const auto memory = core_->memory.control.subspan(index * control_slot_bytes, control_slot_bytes);
  control_ids_[index] = stamp(header, given, memory);
  return {.id = control_ids_[index], .bytes = memory.first(frame_header_bytes + header.length)};
}

std::optional<outgoing_frame> send_half::next_control(frame_header header,
                                                      const grant& given) noexcept {
  if (!has_control_slot() || !may_send_control(header.kind)) return std::nullopt;
  return next_bare(header, given);
}

outgoing_frame send_half::next_queued(const grant& given) noexcept {
  const auto memory = memory_at(handed_);
  auto& next = slots_[index_of(handed_++)];
  if (next.in_place.empty() && next.bytes < copy_capacity_) small_ones_end_ = handed_;
  const bool is_last = handed_ == written_;
  if (is_last) flush_ = false;
  if (is_last && end_ != write_end::open) {
    fin_handed_ = true;
    fin_id_ = next_id_;
  }
  if (!next.in_place.empty()) ++core_->numbers.in_place_frames_sent;
  next.id = stamp({.kind = frame_kind::data,
                   .fin = fin_handed_,
                   .length = next.bytes + static_cast<std::uint32_t>(next.in_place.size())},
                  given, memory);
  return {.id = next.id,
          .bytes = memory.first(frame_header_bytes + next.bytes),
          .in_place = next.in_place,
          .tag = next.tag};
}

std::optional<outgoing_frame> send_half::next_data(const grant& given) noexcept {
  const bool is_queued = handed_ != written_;
  const bool is_bare_fin = !is_queued && end_ != write_end::open && !fin_handed_;
  // Without credits, nothing of a shared pool is ever queued.
  const bool is_kept_out = !is_queued && announced_ != 0 && pool().is_shared();
  if (!is_bare_fin && !is_kept_out && !(is_queued && may_leave(given))) return std::nullopt;
  if (credits() == 0) {
    if (!std::exchange(is_stalled_, true)) ++core_->numbers.credit_stalls;
    return std::nullopt;
  }
  is_stalled_ = false;
  if (is_queued) return next_queued(given);
  if (!is_bare_fin || !has_control_slot()) return std::nullopt;
  const auto frame = next_bare({.kind = frame_kind::data, .fin = true}, given);
  fin_handed_ = true;
  fin_id_ = frame.id;
  return frame;
}

std::optional<outgoing_frame> send_half::next_reset(const grant& given) noexcept {
  if (!reset_due_) return std::nullopt;
  const auto frame =
      next_control({.kind = frame_kind::reset, .length = reset_payload_bytes}, given);
  if (!frame) return std::nullopt;
  const auto begin = static_cast<std::size_t>(frame->bytes.data() - core_->memory.control.data());
  put(core_->memory.control.subspan(begin), frame_header_bytes, std::to_underlying(*reset_due_));
  reset_due_.reset();
  reset_in_flight_ = true;
  reset_id_ = frame->id;
  return frame;
}

void send_half::sent_up_to(std::uint32_t id) noexcept {
  const auto count = id - completed_ + 1;
  if (count == 0 || count > in_flight()) return;
  const auto has_completed = [first = completed_, count](std::uint32_t one) {
    return one - first < count;
  };
  while (released_ != handed_ && has_completed(slots_[index_of(released_)].id)) {
    const auto& sent = slots_[index_of(released_++)];
    pool().give_back(sent.buffer);
    confirmed_ = sent.begin + sent.bytes + sent.in_place.size();
  }
  while (control_released_ != control_handed_ &&
         has_completed(control_ids_[control_released_ % control_slots])) {
    ++control_released_;
  }
  if (fin_handed_ && has_completed(fin_id_)) fin_sent_ = true;
  if (reset_in_flight_ && has_completed(reset_id_)) reset_in_flight_ = false;
  completed_ += count;
}

void send_half::confirm_all() noexcept {
  fin_sent_ = true;
  confirmed_ = core_->numbers.bytes_written;
}

// --- what the peer says ------------------------------------------------------------------------

std::optional<std::string> send_half::objection_to(const frame_header& header) const {
  // Never less than before, never more than the limit that the peer announced.
  const auto most = core_->terms.peer.most_credits();
  if (header.granted - peer_granted_ > most - credits()) {
    return fmt::format("{} buffers are granted up to {} with {} frames sent, {} before", most,
                       header.granted, next_sequence_, peer_granted_);
  }
  const auto acknowledged = static_cast<std::uint8_t>(header.acknowledged - control_acknowledged_);
  const auto unacknowledged = static_cast<std::uint8_t>(control_sent_ - control_acknowledged_);
  if (acknowledged > unacknowledged) {
    return fmt::format("{} control frames are acknowledged, of {} that were sent",
                       header.acknowledged, control_sent_);
  }
  if (header.kind == frame_kind::stop && peer_stopped_) return "stop after stop";
  return std::nullopt;
}

void send_half::stopped_by_peer() noexcept {
  peer_stopped_ = true;
  if (end_ == write_end::open) end_ = write_end::stopped_by_peer;
  drop_queued();
}

}  // namespace RDMAXX_NAMESPACE::stream_protocol
