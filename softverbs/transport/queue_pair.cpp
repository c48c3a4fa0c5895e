#include <transport/queue_pair.hpp>

#include <algorithm>

namespace softverbs::transport {

queue_pair::queue_pair(const configuration& made_of, const send_capacities& capacities,
                       memory_keys& memory, front_end& front)
    : made(made_of),
      sends(capacities.requests, capacities.elements, capacities.inline_bytes),
      front_(front),
      requester_({.made = made, .agreed = agreed, .memory = memory, .front = front}, sends),
      responder_({.made = made, .agreed = agreed, .memory = memory, .front = front}) {}

// --- states ----------------------------------------------------------------------------------

void queue_pair::enter(state next, std::uint32_t first_psn) {
  if (next == state::error) {
    fail();
    return;
  }
  const auto before = state_;
  state_ = next;
  if (next == state::reset) {
    sends.clear();
    responder_.reset(0);
    requester_.reset(0);
  }
  if (next == state::rtr && before == state::init) responder_.reset(first_psn);
  if (next == state::rts && before == state::rtr) requester_.reset(first_psn);
  if (next != state::sqd) tell_when_drained_ = false;
}

void queue_pair::fail() {
  if (state_ == state::error) return;
  // What has been received has been received: the peer shall not learn otherwise.
  if (responder_.has_acknowledgement()) static_cast<void>(responder_.pump());
  state_ = state::error;
  tell_when_drained_ = false;
  front_.state_changed(state_);
  requester_.flush();
  requester_.reset(requester_.next_psn());
  responder_.flush();
  if (!made.shares_receives) flush_receives();
  if (made.shares_receives) front_.raise(event::last_request_reached);
}

void queue_pair::flush_receives() {
  if (made.kind == service::xrc_receive || made.kind == service::xrc_send) return;
  receive_work request;
  while (front_.take_receive(0, request) == front_end::taken::request)
    static_cast<void>(front_.complete({.request = request, .result = status::flushed}));
}

void queue_pair::stop_send_queue() {
  state_ = state::sqe;
  tell_when_drained_ = false;
  front_.state_changed(state_);
  requester_.flush();
  requester_.reset(requester_.next_psn());
}

void queue_pair::settle() {
  if (state_ == state::error) return;
  if (responder_.has_failed()) {
    // The peer learns first what is wrong with its request.
    while (responder_.pump()) {
    }
    responder_.report_failure();
    fail();
    return;
  }
  switch (requester_.failed()) {
    case requester::failure::none:
      return;
    case requester::failure::send_queue:
      stop_send_queue();
      return;
    case requester::failure::queue_pair:
      fail();
      return;
  }
}

// --- work in ---------------------------------------------------------------------------------

void queue_pair::posted(unsigned count) {
  sends.publish(count);
  if (state_ == state::error || state_ == state::sqe) requester_.flush();
}

// --- packets ---------------------------------------------------------------------------------

void queue_pair::receive(const received_packet& in) {
  const auto& header = in.packet.header;
  if (state_ != state::rtr && state_ != state::rts && state_ != state::sqd && state_ != state::sqe)
    return;
  if (header.service != on_the_wire(made.kind)) return;
  if ((header.pkey & 0x7fff) != 0x7fff) return;  // 10.9.2: only the default partition
  if (made.kind == service::ud) {
    receive_datagram(in);
    settle();
    return;
  }
  switch (header.op) {
    case wire::operation::acknowledge:
      if (made.kind == service::uc) {
        requester_.on_flow_control(header.psn);
      } else if (sends_requests()) {
        requester_.on_acknowledge(header);
      }
      break;
    case wire::operation::atomic_acknowledge:
      if (sends_requests()) requester_.on_atomic_acknowledge(header);
      break;
    case wire::operation::read_response_first:
    case wire::operation::read_response_middle:
    case wire::operation::read_response_last:
    case wire::operation::read_response_only:
      if (sends_requests()) requester_.on_read_response(in.packet);
      break;
    default:
      if (made.kind != service::xrc_send) responder_.on_request(in.packet);
  }
  settle();
}

void queue_pair::receive_datagram(const received_packet& in) {
  const auto& header = in.packet.header;
  if (header.op == wire::operation::acknowledge) {
    requester_.on_flow_control(header.psn);
    return;
  }
  responder_.on_datagram(in.packet, in.source, in.destination);
  if (!header.ack_request || !in.wants_flow_control) return;
  auto* const back =
      front_.datagram_path({.source = in.destination, .destination = in.source}, header.source_qpn);
  if (back == nullptr) return;
  back->add({.service = wire::transport::ud,
             .op = wire::operation::acknowledge,
             .destination_qpn = header.source_qpn,
             .psn = header.psn,
             .syndrome = wire::syndrome_ack},
            {});
  back->flush();
}

bool queue_pair::answer() {
  const bool more = responder_.pump();
  settle();
  return more;
}

bool queue_pair::send() {
  const bool more = sends_requests() && requester_.pump(state_ == state::rts);
  settle();
  if (tell_when_drained_ && state_ == state::sqd && requester_.is_idle()) {
    tell_when_drained_ = false;
    front_.raise(event::send_queue_drained);
  }
  return more;
}

// --- time ------------------------------------------------------------------------------------

void queue_pair::on_timer(time_point now) {
  if (sends_requests()) requester_.on_timer(now);
  settle();
}

time_point queue_pair::next_deadline() const {
  return std::min(requester_.next_deadline(), responder_.next_deadline());
}

}  // namespace softverbs::transport
