#include <rdmaxx/stream/protocol_engine.hpp>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include <fmt/format.h>

#include "core/big_endian.hpp"

namespace rdmaxx::inline v0::stream_protocol {

namespace {

static_assert(protocol_engine::control_slot_bytes >= frame_header_bytes + reset_payload_bytes);

result<void> check_memory(const agreement& terms, const engine_memory& memory) {
  constexpr std::string_view operation = "creating a stream's protocol engine";
  for (const auto& window : {terms.own, terms.peer}) {
    if (const auto checked = window.check(); !checked) return checked.error().within(operation);
  }
  if (const auto needed = std::size_t{terms.own.buffers} * terms.own.buffer_bytes;
      memory.receive.size() != needed) {
    return misuse_error(
        operation,
        fmt::format("{} bytes to receive in for {}", memory.receive.size(), describe(terms.own)),
        fmt::format("give it {} bytes", needed));
  }
  if (memory.send_slot_bytes < receive_window::fewest_bytes ||
      memory.send_slot_bytes > receive_window::most_bytes) {
    return misuse_error(operation, fmt::format("send slots of {} bytes", memory.send_slot_bytes),
                        fmt::format("use {} to {} bytes", receive_window::fewest_bytes,
                                    receive_window::most_bytes));
  }
  if (const auto needed = protocol_engine::control_bytes +
                          protocol_engine::fewest_send_slots * memory.send_slot_bytes;
      memory.send.size() < needed) {
    return misuse_error(
        operation, fmt::format("{} bytes of send memory", memory.send.size()),
        fmt::format("give it at least {}: {} for control frames and {} slots", needed,
                    protocol_engine::control_bytes, protocol_engine::fewest_send_slots));
  }
  return {};
}

std::size_t send_slots_in(const engine_memory& memory) noexcept {
  return (memory.send.size() - protocol_engine::control_bytes) / memory.send_slot_bytes;
}

error reset_by_peer(std::uint32_t reason) {
  const bool blames_us = reset_reason(reason) == reset_reason::protocol_violation;
  return errno_error("receiving from a stream's peer", ECONNRESET,
                     blames_us ? "aborted by the peer, because a frame of this side was not legal"
                               : "aborted by the peer",
                     blames_us
                         ? "one of the two implementations is defective: compare their versions"
                         : "the peer's program gave the connection up; its log may say why");
}

}  // namespace

std::string describe(const engine_memory& memory) {
  return fmt::format("{} bytes to send from in slots of {}, {} bytes to receive in",
                     memory.send.size(), memory.send_slot_bytes, memory.receive.size());
}

std::string describe(const outgoing_frame& frame) {
  return fmt::format("frame {}: {} bytes and {} in place", frame.sequence, frame.bytes.size(),
                     frame.in_place.size());
}

std::string describe(const engine_statistics& statistics) {
  return fmt::format(
      "written {} bytes, read {} bytes; sent {} frames ({} credit, {} in place), received {} ({} "
      "credit); {} writes coalesced, {} stalls for credits",
      statistics.bytes_written, statistics.bytes_read, statistics.frames_sent,
      statistics.credit_frames_sent, statistics.in_place_frames_sent, statistics.frames_received,
      statistics.credit_frames_received, statistics.coalesced_writes, statistics.credit_stalls);
}

result<protocol_engine> protocol_engine::create(const agreement& terms,
                                                const engine_memory& memory) {
  RDMAXX_TRY(check_memory(terms, memory));
  return protocol_engine(terms, memory);
}

protocol_engine::protocol_engine(const agreement& terms, const engine_memory& memory)
    : terms_(terms),
      memory_(memory),
      send_slots_(send_slots_in(memory)),
      copy_capacity_(static_cast<std::uint32_t>(
          std::min<std::size_t>(memory.send_slot_bytes, terms.peer.buffer_bytes) -
          frame_header_bytes)),
      next_sequence_(terms.own_first_sequence),
      completed_(terms.own_first_sequence),
      peer_granted_(terms.own_first_sequence + terms.peer.buffers),
      receive_entries_(terms.own.buffers),
      expected_(terms.peer_first_sequence),
      granted_(terms.peer_first_sequence + terms.own.buffers),
      advertised_(granted_) {}

// --- writing -----------------------------------------------------------------------------------

std::span<std::byte> protocol_engine::send_memory_at(std::uint64_t position) const noexcept {
  return memory_.send.subspan(control_bytes + index_of(position) * memory_.send_slot_bytes,
                              memory_.send_slot_bytes);
}

// The last slot has not been handed out and has room.
bool protocol_engine::has_open_slot() const noexcept {
  if (handed_ == written_) return false;
  const auto& last = send_slots_[index_of(written_ - 1)];
  return last.in_place.empty() && last.bytes < copy_capacity_;
}

std::size_t protocol_engine::write(std::span<const std::byte> bytes) noexcept {
  if (!accepts_writes()) return 0;
  auto rest = bytes;
  while (!rest.empty()) {
    if (has_open_slot()) {
      if (rest.size() == bytes.size()) ++numbers_.coalesced_writes;
    } else {
      if (!has_free_slot()) break;
      send_slots_[index_of(written_++)] = {.begin = numbers_.bytes_written};
    }
    auto& slot = send_slots_[index_of(written_ - 1)];
    const auto count = std::min<std::size_t>(rest.size(), copy_capacity_ - slot.bytes);
    std::memcpy(send_memory_at(written_ - 1).data() + frame_header_bytes + slot.bytes, rest.data(),
                count);
    slot.bytes += static_cast<std::uint32_t>(count);
    numbers_.bytes_written += count;
    rest = rest.subspan(count);
  }
  return bytes.size() - rest.size();
}

std::size_t protocol_engine::write_in_place(std::span<const std::byte> bytes,
                                            std::uint64_t tag) noexcept {
  if (bytes.empty() || !accepts_writes() || !has_free_slot()) return 0;
  const auto taken = bytes.first(
      std::min<std::size_t>(bytes.size(), terms_.peer.buffer_bytes - frame_header_bytes));
  send_slots_[index_of(written_++)] = {
      .begin = numbers_.bytes_written, .in_place = taken, .tag = tag};
  numbers_.bytes_written += taken.size();
  return taken.size();
}

bool protocol_engine::can_write() const noexcept { return can_write_in_place() || has_open_slot(); }

bool protocol_engine::can_write_in_place() const noexcept {
  return !accepts_writes() || has_free_slot();
}

result<void> protocol_engine::check_write() const {
  if (failure_) return *failure_;
  switch (write_end_) {
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

void protocol_engine::shutdown_write() noexcept {
  if (write_end_ == write_end::open) write_end_ = write_end::shut_down;
}

std::uint64_t protocol_engine::released_position() const noexcept {
  if (released_ == written_) return numbers_.bytes_written;
  return send_slots_[index_of(released_)].begin;
}

void protocol_engine::drop_queued() noexcept {
  written_ = handed_;
  flush_ = false;
}

// --- reading -----------------------------------------------------------------------------------

std::span<std::byte> protocol_engine::receive_slot(std::size_t slot) const noexcept {
  return memory_.receive.subspan(slot * terms_.own.buffer_bytes, terms_.own.buffer_bytes);
}

std::span<const std::byte> protocol_engine::readable() const noexcept {
  if (unread_.first == no_slot) return {};
  const auto& entry = receive_entries_[unread_.first];
  return receive_slot(unread_.first).subspan(entry.begin, entry.end - entry.begin);
}

void protocol_engine::consume(std::size_t bytes) noexcept {
  while (bytes != 0 && unread_.first != no_slot) {
    auto& entry = receive_entries_[unread_.first];
    const auto count =
        static_cast<std::uint32_t>(std::min<std::size_t>(bytes, entry.end - entry.begin));
    entry.begin += count;
    available_ -= count;
    numbers_.bytes_read += count;
    bytes -= count;
    if (entry.begin == entry.end) release(pop(unread_));
  }
}

std::size_t protocol_engine::read(std::span<std::byte> into) noexcept {
  auto rest = into;
  while (!rest.empty() && available_ != 0) {
    const auto here = readable();
    const auto count = std::min(here.size(), rest.size());
    std::memcpy(rest.data(), here.data(), count);
    consume(count);
    rest = rest.subspan(count);
  }
  return into.size() - rest.size();
}

bool protocol_engine::can_read() const noexcept {
  return available_ != 0 || peer_fin_ || read_shut_down_ || failure_;
}

bool protocol_engine::at_end() const noexcept {
  return available_ == 0 && (peer_fin_ || read_shut_down_) && (!failure_ || is_lost_);
}

result<void> protocol_engine::check_read() const {
  if (!failure_ || available_ != 0 || at_end()) return {};
  return *failure_;
}

void protocol_engine::shutdown_read() noexcept {
  if (read_shut_down_) return;
  read_shut_down_ = true;
  stop_due_ = !peer_fin_;
  while (unread_.first != no_slot) release(pop(unread_));
  available_ = 0;
}

void protocol_engine::drop_unread() noexcept {
  unread_ = {};
  available_ = 0;
}

// --- sending -----------------------------------------------------------------------------------

bool protocol_engine::is_credit_due() const noexcept {
  // After its fin the peer sends little, and the reserve suffices for that.
  return !peer_fin_ && granted_ - advertised_ >= terms_.own.buffers / 2;
}

// A slot that still has room waits for more while another such one is under way, unless somebody
// needs it. Behind full ones it does not wait: it is the end of something large.
bool protocol_engine::may_leave() const noexcept {
  return written_ - handed_ > 1 || !has_open_slot() || flush_ || write_end_ != write_end::open ||
         small_ones_end_ <= released_ || is_credit_due();
}

void protocol_engine::stamp(frame_header header, std::span<std::byte> slot) noexcept {
  header.sequence = next_sequence_++;
  header.granted = advertised_ = granted_;
  encode(header, slot.first<frame_header_bytes>());
  ++numbers_.frames_sent;
}

std::optional<outgoing_frame> protocol_engine::next_control(frame_kind kind, bool fin,
                                                            std::uint32_t length) noexcept {
  if (credits() == 0 || control_handed_ - control_released_ == control_slots) return std::nullopt;
  const auto index = control_handed_++ % control_slots;
  const auto slot = memory_.send.subspan(index * control_slot_bytes, control_slot_bytes);
  control_sequences_[index] = next_sequence_;
  stamp({.kind = kind, .fin = fin, .length = length}, slot);
  return outgoing_frame{.sequence = control_sequences_[index],
                        .bytes = slot.first(frame_header_bytes + length)};
}

std::optional<outgoing_frame> protocol_engine::next_queued() noexcept {
  auto& slot = send_slots_[index_of(handed_)];
  const auto memory = send_memory_at(handed_++);
  if (slot.in_place.empty() && slot.bytes < copy_capacity_) small_ones_end_ = handed_;
  slot.sequence = next_sequence_;
  const bool is_last = handed_ == written_;
  if (is_last) flush_ = false;
  if (is_last && write_end_ != write_end::open) {
    fin_handed_ = true;
    fin_sequence_ = next_sequence_;
  }
  if (!slot.in_place.empty()) ++numbers_.in_place_frames_sent;
  stamp({.kind = frame_kind::data,
         .fin = fin_handed_,
         .length = slot.bytes + static_cast<std::uint32_t>(slot.in_place.size())},
        memory);
  return outgoing_frame{.sequence = slot.sequence,
                        .bytes = memory.first(frame_header_bytes + slot.bytes),
                        .in_place = slot.in_place,
                        .tag = slot.tag};
}

std::optional<outgoing_frame> protocol_engine::next_data() noexcept {
  const bool is_queued = handed_ != written_;
  const bool is_bare_fin = !is_queued && write_end_ != write_end::open && !fin_handed_;
  if (!is_bare_fin && !(is_queued && may_leave())) return std::nullopt;
  if (credits() <= control_reserve) {
    if (!std::exchange(is_stalled_, true)) ++numbers_.credit_stalls;
    return std::nullopt;
  }
  is_stalled_ = false;
  if (is_queued) return next_queued();
  auto frame = next_control(frame_kind::data, true, 0);
  if (frame) {
    fin_handed_ = true;
    fin_sequence_ = frame->sequence;
  }
  return frame;
}

std::optional<outgoing_frame> protocol_engine::next_send() noexcept {
  if (!is_connected_) return std::nullopt;
  if (failure_) {
    if (!reset_due_) return std::nullopt;
    auto frame = next_control(frame_kind::reset, false, reset_payload_bytes);
    if (!frame) return std::nullopt;
    put(memory_.send.subspan(static_cast<std::size_t>(frame->bytes.data() - memory_.send.data())),
        frame_header_bytes, std::to_underlying(*reset_due_));
    reset_due_.reset();
    reset_in_flight_ = true;
    reset_sequence_ = frame->sequence;
    return frame;
  }
  // The buffers of control frames are granted again with the very next frame: with that, the
  // reserve always suffices.
  if (control_to_post_ != 0) return std::nullopt;
  if (stop_due_) {
    if (auto frame = next_control(frame_kind::stop, false, 0)) {
      stop_due_ = false;
      return frame;
    }
  }
  if (auto frame = next_data()) return frame;
  if (!is_credit_due()) return std::nullopt;
  auto frame = next_control(frame_kind::credit, false, 0);
  if (frame) ++numbers_.credit_frames_sent;
  return frame;
}

void protocol_engine::sent_up_to(std::uint32_t sequence) noexcept {
  const auto count = sequence - completed_ + 1;
  if (count == 0 || count > in_flight()) return;
  const auto has_completed = [first = completed_, count](std::uint32_t one) {
    return one - first < count;
  };
  while (released_ != handed_ && has_completed(send_slots_[index_of(released_)].sequence)) {
    const auto& slot = send_slots_[index_of(released_++)];
    confirmed_ = slot.begin + slot.bytes + slot.in_place.size();
  }
  while (control_released_ != control_handed_ &&
         has_completed(control_sequences_[control_released_ % control_slots])) {
    ++control_released_;
  }
  if (fin_handed_ && has_completed(fin_sequence_)) fin_sent_ = true;
  if (reset_in_flight_ && has_completed(reset_sequence_)) reset_in_flight_ = false;
  completed_ += count;
}

// --- receiving ---------------------------------------------------------------------------------

void protocol_engine::push(receive_list& list, std::uint32_t slot, receive_state state) noexcept {
  auto& entry = receive_entries_[slot];
  entry.next = no_slot;
  entry.state = state;
  if (list.first == no_slot) {
    list.first = slot;
  } else {
    receive_entries_[list.last].next = slot;
  }
  list.last = slot;
}

std::uint32_t protocol_engine::pop(receive_list& list) noexcept {
  const auto slot = list.first;
  list.first = receive_entries_[slot].next;
  return slot;
}

void protocol_engine::release(std::uint32_t slot) noexcept {
  push(to_post_, slot, receive_state::released);
}

std::optional<std::size_t> protocol_engine::next_receive() noexcept {
  if (to_post_.first == no_slot || failure_) return std::nullopt;
  const auto slot = pop(to_post_);
  receive_entries_[slot].state = receive_state::listed;
  return slot;
}

void protocol_engine::posted(std::size_t slot) noexcept {
  if (slot >= receive_entries_.size()) return;
  auto& entry = receive_entries_[slot];
  if (entry.state != receive_state::listed) return;
  if (std::exchange(entry.is_control, false)) --control_to_post_;
  entry.state = receive_state::posted;
  ++granted_;
}

result<void> protocol_engine::received(std::size_t slot, std::size_t bytes) {
  if (slot >= receive_entries_.size() || bytes > terms_.own.buffer_bytes ||
      receive_entries_[slot].state != receive_state::posted) {
    return misuse_error(
        "giving a stream's engine what was received",
        fmt::format("{} bytes in slot {}, which was not posted with so many", bytes, slot),
        "tell posted() about every slot, and received() what the completion says");
  }
  if (failure_) return *failure_;
  auto header = decode_frame(receive_slot(slot).first(bytes));
  if (!header) return fail(std::move(header).error(), reset_reason::protocol_violation);
  return take(*header, static_cast<std::uint32_t>(slot));
}

// What a frame may say after those before it.
result<void> protocol_engine::take(const frame_header& header, std::uint32_t slot) {
  const auto lie = [&](std::string problem) {
    return fail(protocol_violation(std::move(problem)), reset_reason::protocol_violation);
  };
  if (header.sequence != expected_)
    return lie(fmt::format("frame {} instead of {}", header.sequence, expected_));
  // Never fewer than before, never more than buffers that are not under way to the peer.
  if (header.granted - peer_granted_ > terms_.peer.buffers - credits()) {
    return lie(fmt::format("{} buffers are granted up to {} with {} frames sent, {} before",
                           terms_.peer.buffers, header.granted, next_sequence_, peer_granted_));
  }
  if (header.kind == frame_kind::data && peer_fin_) return lie("data after fin");
  if (header.kind == frame_kind::stop && peer_stopped_) return lie("stop after stop");

  ++expected_;
  ++numbers_.frames_received;
  peer_granted_ = header.granted;
  auto& entry = receive_entries_[slot];
  switch (header.kind) {
    case frame_kind::data:
      peer_fin_ = header.fin;
      if (header.length == 0 || read_shut_down_) break;
      entry.begin = frame_header_bytes;
      entry.end = static_cast<std::uint32_t>(frame_header_bytes) + header.length;
      available_ += header.length;
      push(unread_, slot, receive_state::unread);
      return {};
    case frame_kind::credit:
      ++numbers_.credit_frames_received;
      break;
    case frame_kind::stop:
      peer_stopped_ = true;
      if (write_end_ == write_end::open) write_end_ = write_end::stopped_by_peer;
      drop_queued();
      break;
    case frame_kind::reset:
      return fail(reset_by_peer(get<std::uint32_t>(receive_slot(slot), frame_header_bytes)),
                  std::nullopt);
  }
  if (header.kind != frame_kind::data) {
    entry.is_control = true;
    ++control_to_post_;
  }
  release(slot);
  return {};
}

// --- the end -----------------------------------------------------------------------------------

result<void> protocol_engine::fail(error reason, std::optional<reset_reason> tell_peer) {
  drop_queued();
  drop_unread();
  reset_due_ = tell_peer;
  failure_ = std::move(reason);
  return *failure_;
}

void protocol_engine::abort() {
  if (failure_) return;
  const auto tell_peer = is_finished() ? std::nullopt : std::optional(reset_reason::aborted);
  static_cast<void>(fail(error({.operation = "using a stream",
                                .code = std::make_error_code(std::errc::connection_aborted),
                                .category = error_category::gone,
                                .problem = "aborted by this side",
                                .hint = "nothing can be read or written after an abort"}),
                         tell_peer));
}

void protocol_engine::connection_lost(bool in_order) {
  if (!std::exchange(is_connected_, false)) return;
  if (in_order && fin_handed_ && peer_fin_) {
    fin_sent_ = true;
    confirmed_ = numbers_.bytes_written;
  }
  if (failure_ || is_finished()) return;
  drop_queued();
  is_lost_ = true;
  failure_ = error({.operation = "using a stream",
                    .code = std::make_error_code(std::errc::connection_aborted),
                    .category = error_category::peer,
                    .problem = "the connection was lost before both sides had ended the stream",
                    .hint = "the peer's program or the way to it has failed; what was written last "
                            "may not have arrived"});
}

bool protocol_engine::wants_disconnect() const noexcept {
  if (!failure_) return is_finished();
  return !is_connected_ || !(reset_in_flight_ || (reset_due_ && credits() != 0));
}

std::string describe(const protocol_engine& engine) {
  auto text = fmt::format(
      "stream engine: {} credits, {} frames in flight, {} bytes written and not released, {} to "
      "read",
      engine.credits(), engine.in_flight(), engine.written_position() - engine.released_position(),
      engine.available());
  if (engine.at_end()) text += ", at the end";
  if (const auto& failure = engine.failure()) text += fmt::format("; {}", failure->message());
  return text;
}

}  // namespace rdmaxx::inline v0::stream_protocol
