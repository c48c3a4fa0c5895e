#include <transport/responder.hpp>

#include <algorithm>

#include <base/log.hpp>
#include <transport/operations.hpp>

namespace softverbs::transport {
namespace {

// What is sent of one answer before others get their turn.
constexpr std::size_t burst_bytes = std::size_t{128} * 1024;

}  // namespace

void responder::reset(std::uint32_t first_psn) {
  failure_.reset();
  expected_ = first_psn & wire::psn_mask;
  msn_ = 0;
  refused_ = established_ = discarding_ = have_receive_ = answer_due_ = false;
  under_way_ = message::none;
  received_ = 0;
  resources_.clear();
  room_at_ = never;
}

void responder::on_request(const wire::packet& packet) {
  if (failure_) return;
  if (around_.made.kind == service::uc) {
    on_unreliable(packet);
  } else {
    on_reliable(packet);
  }
}

// --- order -----------------------------------------------------------------------------------

void responder::on_reliable(const wire::packet& packet) {
  const auto& header = packet.header;
  const auto distance = wire::psn_distance(expected_, header.psn);
  if (distance < 0) {
    on_duplicate(header);
    return;
  }
  if (distance > 0) {
    if (!refused_) {
      log(log_level::debug, "queue pair {:#x} refuses packet {} of a gap: it expects {}",
          around_.made.qpn, header.psn, expected_);
      refuse(wire::syndrome_nak | static_cast<std::uint8_t>(wire::nak::sequence));
    }
    return;
  }
  refused_ = false;
  if (!established_) {
    established_ = true;
    around_.front.raise(event::first_request);
  }
  if (!sequence_is_good(packet)) {
    reject(wire::nak::invalid_request, status::local_operation_error, event::request_error);
    return;
  }
  accept(packet);
}

void responder::on_unreliable(const wire::packet& packet) {
  const auto& header = packet.header;
  // 9.8.2.2.1: a gap damages the message that it lies in, and nothing else.
  if (header.psn != expected_ && under_way_ != message::none) {
    under_way_ = message::none;
    discarding_ = true;
    // The receive request serves the next message.
  }
  expected_ = header.psn;
  if (starts_message(header.op)) {
    discarding_ = false;
    under_way_ = message::none;
  }
  if (header.ack_request) acknowledge();
  due_psn_ = header.psn;
  if (discarding_ || !sequence_is_good(packet)) {
    discard();
    return;
  }
  accept(packet);
}

void responder::discard() {
  discarding_ = true;
  under_way_ = message::none;
  expect_next();
}

bool responder::sequence_is_good(const wire::packet& packet) const {
  const auto op = packet.header.op;
  if (!wire::is_defined(packet.header.service, op)) return false;
  if (!is_send(op) && !is_write(op)) return under_way_ == message::none;
  const auto wanted = is_send(op) ? message::send : message::write;
  if (under_way_ != (starts_message(op) ? message::none : wanted)) return false;
  // 9.7.4.1.6: first and middle packets are full, a last one is not empty.
  const auto bytes = packet.payload.size();
  if (is_first(op) || is_middle(op)) return bytes == mtu();
  return bytes <= mtu() && (bytes > 0 || is_only(op));
}

void responder::on_duplicate(const wire::headers& header) {
  if (!wire::is_defined(header.service, header.op)) return;
  // 9.7.5.1.2: sends and writes are acknowledged again, reads carried out again, atomics answered
  // from memory.
  if (header.op == operation::read_request || is_atomic(header.op)) {
    resources_.repeat(header, mtu());
    return;
  }
  // Even where no answer is asked for: a peer that comes again does not know how far we are, and
  // if the rest of its train is lost again, will never ask. A refusal that is about to be sent
  // acknowledges as much.
  const bool refusing = answer_due_ && due_syndrome_ != wire::syndrome_ack;
  if (!refusing) acknowledge();
}

// --- answers ---------------------------------------------------------------------------------

wire::headers responder::answer_header(operation op, std::uint32_t psn) const {
  return {.service = on_the_wire(around_.made.kind),
          .op = op,
          .destination_qpn = around_.agreed.destination_qpn,
          .psn = psn & wire::psn_mask,
          .syndrome = wire::syndrome_ack,
          .msn = msn_};
}

void responder::acknowledge() {
  answer_due_ = true;
  due_syndrome_ = wire::syndrome_ack;
  due_psn_ = (expected_ - 1) & wire::psn_mask;
}

void responder::refuse(std::uint8_t syndrome) {
  refused_ = true;
  answer_due_ = true;
  due_syndrome_ = syndrome;
  due_psn_ = expected_;
}

void responder::reject(wire::nak code, status receive_status, event told) {
  if (around_.made.kind == service::uc) {
    // 9.8.2.2: an unreliable queue pair drops what it cannot use; only a receive request that does
    // not fit fails, and the queue pair with it.
    discard();
    if (!have_receive_ || (receive_status != status::local_length_error &&
                           receive_status != status::local_protection_error))
      return;
  } else {
    refuse(static_cast<std::uint8_t>(wire::syndrome_nak | static_cast<std::uint8_t>(code)));
  }
  failure_ = {.told = told, .result = receive_status};
}

void responder::report_failure() {
  if (!failure_ || !failure_->told) return;
  const auto [told, result] = *failure_;
  if (have_receive_) {
    complete_receive({.request = receive_, .result = result, .solicited = true});
  } else {
    around_.front.raise(*told);
  }
}

void responder::flush() {
  if (!have_receive_) return;
  have_receive_ = false;
  static_cast<void>(around_.front.complete({.request = receive_, .result = status::flushed}));
}

bool responder::pump() {
  if (around_.front.is_frozen()) return false;
  room_at_ = never;
  if (resources_.is_empty() && !answer_due_) return false;
  auto* const peer = around_.front.peer();
  if (peer == nullptr) {
    resources_.drop_waiting();
    answer_due_ = false;
    return false;
  }
  while (!resources_.is_empty()) {
    std::size_t burst = 0;
    if (!send_response(*peer, burst)) return burst >= burst_bytes;
  }
  if (answer_due_) {
    answer_due_ = false;
    auto header = answer_header(operation::acknowledge, due_psn_);
    header.syndrome = due_syndrome_;
    peer->add(header, {});
    peer->flush();
  }
  return false;
}

bool responder::send_response(packet_sink& out, std::size_t& burst) {
  auto& next = resources_.front();
  if (next.is_atomic) {
    auto header = answer_header(operation::atomic_acknowledge, next.first_psn);
    header.msn = next.msn;
    header.original = next.original;
    out.add(header, {});
    out.flush();
    resources_.pop();
    return true;
  }
  const memory_keys::use memory(around_.memory);
  bool finished = true;
  while (next.sent < next.packets) {
    finished = burst < burst_bytes && out.has_room(mtu());
    if (!finished) break;
    room_wait_.reset();
    const auto offset = next.sent * mtu();
    const auto bytes = std::min<std::uint64_t>(mtu(), next.bytes - offset);
    iovec payload{};
    if (bytes != 0) {
      payload = {.iov_base = memory.locate({.key = next.rkey,
                                            .domain = next.domain,
                                            .address = next.address + offset,
                                            .bytes = bytes,
                                            .rights = access::remote_read,
                                            .remote = true,
                                            .qpn = around_.made.qpn}),
                 .iov_len = bytes};
      if (payload.iov_base == nullptr) {
        // The region has gone since the request was accepted.
        auto header = answer_header(operation::acknowledge, next.first_psn + next.sent);
        header.syndrome = wire::syndrome_nak | static_cast<std::uint8_t>(wire::nak::remote_access);
        out.add(header, {});
        out.flush();
        resources_.drop_waiting();
        return false;
      }
    }
    auto header = answer_header(response_operation(next.sent == 0, next.sent + 1 == next.packets),
                                next.first_psn + next.sent);
    header.msn = next.msn;
    out.add(header, {&payload, bytes != 0 ? std::size_t{1} : 0});
    burst += bytes;
    ++next.sent;
  }
  out.flush();
  if (!finished) {
    if (burst < burst_bytes) room_at_ = around_.front.now() + room_wait_.next();
    return false;
  }
  resources_.pop();
  return true;
}

}  // namespace softverbs::transport
