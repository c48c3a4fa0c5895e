#include <rdmaxx/stream/protocol_engine.hpp>

#include <cerrno>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "core/big_endian.hpp"

namespace RDMAXX_NAMESPACE::stream_protocol {

namespace {

result<void> check_memory(const agreement& terms, const engine_memory& memory) {
  constexpr std::string_view operation = "creating a stream's protocol engine";
  for (const auto& window : {terms.own, terms.peer}) {
    if (const auto checked = window.check(); !checked) return checked.error().within(operation);
  }
  if (memory.send == nullptr || memory.receive == nullptr)
    return misuse_error(operation, "a pool is missing",
                        "give it one to send from and one to receive in");
  if (memory.receive->buffer_bytes() != terms.own.buffer_bytes ||
      memory.receive->size() < terms.own.buffers) {
    return misuse_error(operation,
                        fmt::format("{} for {}", describe(*memory.receive), describe(terms.own)),
                        fmt::format("give it at least {} buffers of {} bytes", terms.own.buffers,
                                    terms.own.buffer_bytes));
  }
  if (memory.send->buffer_bytes() < receive_window::fewest_bytes ||
      memory.send->buffer_bytes() > receive_window::most_bytes) {
    return misuse_error(operation,
                        fmt::format("send buffers of {} bytes", memory.send->buffer_bytes()),
                        fmt::format("use {} to {} bytes", receive_window::fewest_bytes,
                                    receive_window::most_bytes));
  }
  if (memory.send_buffers < send_half::fewest_buffers ||
      memory.send->size() < send_half::fewest_buffers) {
    return misuse_error(
        operation,
        fmt::format("{} send buffers of {}", memory.send_buffers, describe(*memory.send)),
        fmt::format("give it at least {}", send_half::fewest_buffers));
  }
  if (memory.control.size() < send_half::control_bytes) {
    return misuse_error(operation,
                        fmt::format("{} bytes for control frames", memory.control.size()),
                        fmt::format("give it at least {}", send_half::control_bytes));
  }
  return {};
}

error reset_by_peer(std::uint32_t reason) {
  const bool blames_us = reset_reason(reason) == reset_reason::protocol_violation;
  return errno_error("receiving from a stream's peer", ECONNRESET,
                     blames_us ? "aborted by the peer, because a frame of this side was invalid"
                               : "aborted by the peer",
                     blames_us
                         ? "one of the two implementations is defective: compare their versions"
                         : "the peer's program gave up the connection; its log may say why");
}

}  // namespace

std::string describe(const engine_memory& memory) {
  if (memory.send == nullptr || memory.receive == nullptr) return "no memory";
  return fmt::format("sends from {} of {}, receives in {}", memory.send_buffers,
                     describe(*memory.send), describe(*memory.receive));
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
  return protocol_engine(
      std::make_unique<engine_core>(engine_core{.terms = terms, .memory = memory}));
}

// --- sending -----------------------------------------------------------------------------------

bool protocol_engine::waits_for_sends() const noexcept {
  return sending_.in_flight() != 0 && (sending_.has_unsent() || sending_.has_reset_due() ||
                                       receiving_.is_stop_due() || receiving_.is_credit_due());
}

std::optional<outgoing_frame> protocol_engine::next_send() noexcept {
  if (!core_->is_connected) return std::nullopt;
  auto frame = choose_frame();
  if (frame) receiving_.advertised();
  return frame;
}

std::optional<outgoing_frame> protocol_engine::choose_frame() noexcept {
  const bool is_posted = !core_->memory.receive->has_unposted();
  if (is_posted && !core_->failure) receiving_.grant();
  const send_half::grant given{.granted = receiving_.granted(),
                               .acknowledged = receiving_.acknowledged(),
                               .is_due = receiving_.is_credit_due()};
  if (core_->failure) return sending_.next_reset(given);
  if (!is_posted) return std::nullopt;
  if (receiving_.is_stop_due()) {
    if (auto frame = sending_.next_control({.kind = frame_kind::stop}, given)) {
      receiving_.stop_handed();
      return frame;
    }
  }
  if (auto frame = sending_.next_data(given)) return frame;
  if (!given.is_due) return std::nullopt;
  auto frame = sending_.next_control({.kind = frame_kind::credit}, given);
  if (frame) ++core_->numbers.credit_frames_sent;
  return frame;
}

// --- receiving ---------------------------------------------------------------------------------

result<void> protocol_engine::received(std::size_t buffer, std::size_t bytes) {
  if (!receiving_.is_posted(buffer) || bytes > core_->terms.own.buffer_bytes) {
    return misuse_error(
        "passing a received frame to a stream's engine",
        fmt::format("{} bytes in buffer {}, which was not posted with that size", bytes, buffer),
        "call posted() for every buffer, and pass received() what the completion says");
  }
  if (const auto& failure = core_->failure) {
    core_->memory.receive->returned(buffer);
    return *failure;
  }
  auto header = decode_frame(receiving_.memory_of(buffer).first(bytes));
  if (!header) {
    core_->memory.receive->returned(buffer);
    return fail(std::move(header).error(), reset_reason::protocol_violation);
  }
  return take(*header, static_cast<std::uint32_t>(buffer));
}

// Checks a frame against the earlier ones, and passes its contents to both halves.
result<void> protocol_engine::take(const frame_header& header, std::uint32_t buffer) {
  auto violation = receiving_.objection_to(header);
  if (!violation) violation = sending_.objection_to(header);
  if (violation) {
    core_->memory.receive->returned(buffer);
    return fail(protocol_violation(*std::move(violation)), reset_reason::protocol_violation);
  }

  receiving_.take(header, buffer);
  sending_.told(header);
  switch (header.kind) {
    case frame_kind::data:
      break;
    case frame_kind::credit:
      ++core_->numbers.credit_frames_received;
      break;
    case frame_kind::stop:
      sending_.stopped_by_peer();
      break;
    case frame_kind::reset:
      return fail(
          reset_by_peer(get<std::uint32_t>(receiving_.memory_of(buffer), frame_header_bytes)),
          std::nullopt);
  }
  return {};
}

// --- the end -----------------------------------------------------------------------------------

result<void> protocol_engine::fail(error reason, std::optional<reset_reason> tell_peer) {
  sending_.drop_queued();
  receiving_.drop_unread();
  sending_.reset(tell_peer);
  return core_->failure.emplace(std::move(reason));
}

void protocol_engine::abort() {
  if (core_->failure) return;
  const auto tell_peer = is_finished() ? std::nullopt : std::optional(reset_reason::aborted);
  static_cast<void>(fail(error({.operation = "using a stream",
                                .code = std::make_error_code(std::errc::connection_aborted),
                                .category = error_category::gone,
                                .problem = "aborted by this side",
                                .hint = "nothing can be read or written after an abort"}),
                         tell_peer));
}

void protocol_engine::connection_lost(bool in_order) {
  if (!std::exchange(core_->is_connected, false)) return;
  if (in_order && sending_.has_handed_fin() && receiving_.has_peer_fin()) sending_.confirm_all();
  if (core_->failure || is_finished()) return;
  sending_.drop_queued();
  core_->is_lost = true;
  core_->failure =
      error({.operation = "using a stream",
             .code = std::make_error_code(std::errc::connection_aborted),
             .category = error_category::peer,
             .problem = "the connection was lost before both sides had ended the stream",
             .hint = "the peer's program or the path to it has failed; what was written last may "
                     "not have arrived"});
}

void protocol_engine::leave() noexcept {
  sending_.leave();
  receiving_.leave();
}

bool protocol_engine::wants_disconnect() const noexcept {
  if (!core_->failure) return is_finished();
  return !core_->is_connected || !sending_.is_resetting();
}

std::string describe(const protocol_engine& engine) {
  const auto& sending = engine.sending();
  auto text = fmt::format(
      "stream engine: {} credits, {} frames in flight, {} bytes written and not released, {} to "
      "read",
      sending.credits(), sending.in_flight(),
      sending.written_position() - sending.released_position(), engine.receiving().available());
  if (engine.receiving().at_end()) text += ", at the end";
  if (const auto& failure = engine.failure()) text += fmt::format("; {}", failure->message());
  return text;
}

}  // namespace RDMAXX_NAMESPACE::stream_protocol
