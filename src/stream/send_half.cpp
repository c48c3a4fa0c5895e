#include <rdmaxx/stream/send_half.hpp>

#include <cerrno>
#include <cstring>
#include <utility>

#include <fmt/format.h>

#include "core/big_endian.hpp"

namespace RDMAXX_NAMESPACE::stream_protocol {

static_assert(send_half::control_slot_bytes >= frame_header_bytes + reset_payload_bytes);

std::string describe(const outgoing_frame& frame) {
  return fmt::format("frame {}: {} bytes and {} in place", frame.sequence, frame.bytes.size(),
                     frame.in_place.size());
}

send_half::send_half(engine_core& core)
    : core_(&core),
      slots_((core.memory.send.size() - control_bytes) / core.memory.send_slot_bytes),
      copy_capacity_(static_cast<std::uint32_t>(
          std::min<std::size_t>(core.memory.send_slot_bytes, core.terms.peer.buffer_bytes) -
          frame_header_bytes)),
      next_sequence_(core.terms.own_first_sequence),
      completed_(core.terms.own_first_sequence),
      peer_granted_(core.terms.own_first_sequence + core.terms.peer.buffers) {}

// --- writing -----------------------------------------------------------------------------------

std::span<std::byte> send_half::memory_at(std::uint64_t position) const noexcept {
  const auto& memory = core_->memory;
  return memory.send.subspan(control_bytes + index_of(position) * memory.send_slot_bytes,
                             memory.send_slot_bytes);
}

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
      if (!has_free_slot()) break;
      slots_[index_of(written_++)] = {.begin = numbers.bytes_written};
    }
    auto& last = slots_[index_of(written_ - 1)];
    const auto count = std::min<std::size_t>(rest.size(), copy_capacity_ - last.bytes);
    std::memcpy(memory_at(written_ - 1).data() + frame_header_bytes + last.bytes, rest.data(),
                count);
    last.bytes += static_cast<std::uint32_t>(count);
    numbers.bytes_written += count;
    rest = rest.subspan(count);
  }
  return bytes.size() - rest.size();
}

std::size_t send_half::write_in_place(std::span<const std::byte> bytes,
                                      std::uint64_t tag) noexcept {
  if (bytes.empty() || !accepts_writes() || !has_free_slot()) return 0;
  const auto taken = bytes.first(
      std::min<std::size_t>(bytes.size(), core_->terms.peer.buffer_bytes - frame_header_bytes));
  slots_[index_of(written_++)] = {
      .begin = core_->numbers.bytes_written, .in_place = taken, .tag = tag};
  core_->numbers.bytes_written += taken.size();
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
                    .hint = "what the peer had not read by then is lost; read on, or close"});
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

void send_half::drop_queued() noexcept {
  written_ = handed_;
  flush_ = false;
}

// --- frames ------------------------------------------------------------------------------------

// A slot that still has room waits for more while another such one is under way, unless somebody
// needs it. Behind full ones it does not wait: it is the end of something large.
bool send_half::may_leave(const grant& given) const noexcept {
  return written_ - handed_ > 1 || !has_open_slot() || flush_ || end_ != write_end::open ||
         small_ones_end_ <= released_ || given.is_due;
}

void send_half::stamp(frame_header header, const grant& given, std::span<std::byte> into) noexcept {
  header.sequence = next_sequence_++;
  header.granted = given.granted;
  encode(header, into.first<frame_header_bytes>());
  ++core_->numbers.frames_sent;
}

std::optional<outgoing_frame> send_half::next_control(frame_header header,
                                                      const grant& given) noexcept {
  if (credits() == 0 || control_handed_ - control_released_ == control_slots) return std::nullopt;
  const auto index = control_handed_++ % control_slots;
  const auto memory = core_->memory.send.subspan(index * control_slot_bytes, control_slot_bytes);
  control_sequences_[index] = next_sequence_;
  stamp(header, given, memory);
  return outgoing_frame{.sequence = control_sequences_[index],
                        .bytes = memory.first(frame_header_bytes + header.length)};
}

outgoing_frame send_half::next_queued(const grant& given) noexcept {
  auto& next = slots_[index_of(handed_)];
  const auto memory = memory_at(handed_++);
  if (next.in_place.empty() && next.bytes < copy_capacity_) small_ones_end_ = handed_;
  next.sequence = next_sequence_;
  const bool is_last = handed_ == written_;
  if (is_last) flush_ = false;
  if (is_last && end_ != write_end::open) {
    fin_handed_ = true;
    fin_sequence_ = next_sequence_;
  }
  if (!next.in_place.empty()) ++core_->numbers.in_place_frames_sent;
  stamp({.kind = frame_kind::data,
         .fin = fin_handed_,
         .length = next.bytes + static_cast<std::uint32_t>(next.in_place.size())},
        given, memory);
  return {.sequence = next.sequence,
          .bytes = memory.first(frame_header_bytes + next.bytes),
          .in_place = next.in_place,
          .tag = next.tag};
}

std::optional<outgoing_frame> send_half::next_data(const grant& given) noexcept {
  const bool is_queued = handed_ != written_;
  const bool is_bare_fin = !is_queued && end_ != write_end::open && !fin_handed_;
  if (!is_bare_fin && !(is_queued && may_leave(given))) return std::nullopt;
  if (credits() <= control_reserve) {
    if (!std::exchange(is_stalled_, true)) ++core_->numbers.credit_stalls;
    return std::nullopt;
  }
  is_stalled_ = false;
  if (is_queued) return next_queued(given);
  const auto frame = next_control({.kind = frame_kind::data, .fin = true}, given);
  if (frame) {
    fin_handed_ = true;
    fin_sequence_ = frame->sequence;
  }
  return frame;
}

std::optional<outgoing_frame> send_half::next_reset(const grant& given) noexcept {
  if (!reset_due_) return std::nullopt;
  const auto frame =
      next_control({.kind = frame_kind::reset, .length = reset_payload_bytes}, given);
  if (!frame) return std::nullopt;
  const auto begin = static_cast<std::size_t>(frame->bytes.data() - core_->memory.send.data());
  put(core_->memory.send.subspan(begin), frame_header_bytes, std::to_underlying(*reset_due_));
  reset_due_.reset();
  reset_in_flight_ = true;
  reset_sequence_ = frame->sequence;
  return frame;
}

void send_half::sent_up_to(std::uint32_t sequence) noexcept {
  const auto count = sequence - completed_ + 1;
  if (count == 0 || count > in_flight()) return;
  const auto has_completed = [first = completed_, count](std::uint32_t one) {
    return one - first < count;
  };
  while (released_ != handed_ && has_completed(slots_[index_of(released_)].sequence)) {
    const auto& sent = slots_[index_of(released_++)];
    confirmed_ = sent.begin + sent.bytes + sent.in_place.size();
  }
  while (control_released_ != control_handed_ &&
         has_completed(control_sequences_[control_released_ % control_slots])) {
    ++control_released_;
  }
  if (fin_handed_ && has_completed(fin_sequence_)) fin_sent_ = true;
  if (reset_in_flight_ && has_completed(reset_sequence_)) reset_in_flight_ = false;
  completed_ += count;
}

void send_half::confirm_all() noexcept {
  fin_sent_ = true;
  confirmed_ = core_->numbers.bytes_written;
}

// --- what the peer says ------------------------------------------------------------------------

std::optional<std::string> send_half::objection_to(const frame_header& header) const {
  // Never fewer than before, never more than buffers that are not under way to the peer.
  const auto buffers = core_->terms.peer.buffers;
  if (header.granted - peer_granted_ > buffers - credits()) {
    return fmt::format("{} buffers are granted up to {} with {} frames sent, {} before", buffers,
                       header.granted, next_sequence_, peer_granted_);
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
