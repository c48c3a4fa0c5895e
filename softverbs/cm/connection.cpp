#include <cm/connection.hpp>

#include <algorithm>
#include <cerrno>
#include <chrono>

namespace softverbs::cm {

using engine::time_point;
using wire::cm_kind;
using watch = protocol_step::watch;

namespace {

// What the kernel's connection manager asks for when a user takes its time: 68 s.
constexpr std::uint8_t mra_service_timeout = 24;

}  // namespace

// --- messages --------------------------------------------------------------------------------

wire::cm_message connection::message_of(cm_kind kind) const {
  return {
      .kind = kind, .transaction = transaction_, .local_id = comm_id_, .remote_id = peer_comm_id_};
}

wire::cm_message connection::dreq() const {
  auto message = message_of(cm_kind::dreq);
  message.qpn = terms_.peer_qpn;
  return message;
}

protocol_step connection::send(const wire::cm_message& message) const { return {.send = message}; }

protocol_step connection::send_mra(wire::cm_answered what) const {
  auto message = message_of(cm_kind::mra);
  message.answered = what;
  message.service_timeout = mra_service_timeout;
  return send(message);
}

// --- ends of states --------------------------------------------------------------------------

protocol_step connection::close(const protocol_step::notification& about) {
  request_.stop();
  state_ = state::closed;
  return {.peer = watch::stop, .notify = about};
}

protocol_step connection::enter_timewait(time_point now) {
  request_.stop();
  state_ = state::timewait;
  // As the kernel counts: the exponent of the local ACK timeout, in units of about 4 µs, as
  // milliseconds.
  const unsigned exponent = std::max<unsigned>(local_ack_timeout_, 8) - 8;
  timewait_end_ = now + std::chrono::milliseconds(1U << exponent);
  return {.peer = watch::stop};
}

// --- the active side -------------------------------------------------------------------------

protocol_step connection::connect(const wire::cm_message& req, time_point now) {
  if (state_ != state::idle) return {.error = EINVAL};
  active_ = true;
  comm_id_ = req.local_id;
  transaction_ = req.transaction;
  service_id_ = req.service_id;
  ca_guid_ = req.ca_guid;
  local_ack_timeout_ = req.ack_timeout;
  terms_ = {.own_qpn = req.qpn,
            .own_psn = req.starting_psn,
            .responder_resources = req.responder_resources,
            .initiator_depth = req.initiator_depth,
            .retry_count = req.retry_count,
            .rnr_retry_count = req.rnr_retry_count};
  state_ = state::req_sent;
  request_.start(req, now);
  return send(req);
}

protocol_step connection::on_rep(const wire::cm_message& rep) {
  if (!active_) return {};
  // The peer repeats its REP until it gets an answer.
  if (state_ == state::established) return send(message_of(cm_kind::rtu));
  if (state_ == state::rep_received) return send_mra(wire::cm_answered::rep);
  if (state_ != state::req_sent) return {};
  request_.stop();
  peer_comm_id_ = rep.local_id;
  terms_.peer_qpn = rep.qpn;
  terms_.peer_psn = rep.starting_psn;
  // The peer's depth is what this side has to hold resources for, and the other way round.
  terms_.responder_resources = rep.initiator_depth;
  terms_.initiator_depth = rep.responder_resources;
  terms_.rnr_retry_count = rep.rnr_retry_count;
  state_ = state::rep_received;
  return {.peer = watch::start,
          .notify = protocol_step::notification{.event = protocol_event::replied, .message = rep}};
}

protocol_step connection::establish() {
  if (state_ != state::rep_received) return {.error = EINVAL};
  state_ = state::established;
  return send(message_of(cm_kind::rtu));
}

// --- the passive side ------------------------------------------------------------------------

void connection::receive_request(const wire::cm_message& req, std::uint32_t comm_id,
                                 std::uint32_t own_psn) {
  comm_id_ = comm_id;
  peer_comm_id_ = req.local_id;
  transaction_ = req.transaction;
  service_id_ = req.service_id;
  local_ack_timeout_ = req.ack_timeout;
  terms_ = {.peer_qpn = req.qpn,
            .own_psn = own_psn,
            .peer_psn = req.starting_psn,
            .responder_resources = req.initiator_depth,
            .initiator_depth = req.responder_resources,
            .retry_count = req.retry_count,
            .rnr_retry_count = req.rnr_retry_count};
  state_ = state::req_received;
}

protocol_step connection::on_repeated_request() {
  switch (state_) {
    case state::req_received:
      return send_mra(wire::cm_answered::req);
    case state::rep_sent:
      return send(request_.resend());  // the REP was lost
    case state::closed:
      return refusal_ ? send(*refusal_) : protocol_step{};
    default:
      return {};
  }
}

protocol_step connection::accept(wire::cm_message rep, time_point now) {
  if (state_ != state::req_received) return {.error = EINVAL};
  rep.kind = cm_kind::rep;
  rep.transaction = transaction_;
  rep.local_id = comm_id_;
  rep.remote_id = peer_comm_id_;
  terms_.own_qpn = rep.qpn;
  terms_.responder_resources = rep.responder_resources;
  terms_.initiator_depth = rep.initiator_depth;
  state_ = state::rep_sent;
  request_.start(rep, now);
  auto step = send(rep);
  step.peer = watch::start;
  return step;
}

protocol_step connection::data_arrived() {
  if (state_ == state::established) return {.error = EISCONN};
  if (state_ != state::rep_sent) return {.error = EINVAL};
  request_.stop();
  state_ = state::established;
  return {.notify = protocol_step::notification{.event = protocol_event::established}};
}

// --- refusing --------------------------------------------------------------------------------

protocol_step connection::reject(wire::cm_message rej) {
  if (state_ != state::req_received && state_ != state::rep_received) return {.error = EINVAL};
  rej.kind = cm_kind::rej;
  rej.transaction = transaction_;
  rej.local_id = comm_id_;
  rej.remote_id = peer_comm_id_;
  if (state_ == state::rep_received) {
    rej.answered = wire::cm_answered::rep;
  } else {
    refusal_ = rej;
  }
  state_ = state::closed;
  return send(rej);
}

protocol_step connection::on_rej(const wire::cm_message& rej, time_point now) {
  switch (state_) {
    case state::req_received:  // the peer does not wait any longer
      state_ = state::closed;
      return {};
    case state::dreq_sent: {
      auto step = enter_timewait(now);
      step.notify = protocol_step::notification{.event = protocol_event::disconnected};
      return step;
    }
    case state::established:  // the peer gave up before it got the RTU
    case state::req_sent:
    case state::rep_sent:
    case state::rep_received:
      return close({.event = protocol_event::rejected, .status = rej.reason, .message = rej});
    default:
      return {};
  }
}

// --- the end ---------------------------------------------------------------------------------

protocol_step connection::disconnect(time_point now) {
  switch (state_) {
    case state::idle:
      return {.error = EINVAL, .fail_queue_pair = true};
    case state::established: {
      state_ = state::dreq_sent;
      request_.start(dreq(), now);
      auto step = send(dreq());
      step.fail_queue_pair = true;
      return step;
    }
    case state::dreq_received: {
      auto step = enter_timewait(now);
      step.send = message_of(cm_kind::drep);
      step.fail_queue_pair = true;
      return step;
    }
    default:
      return {.fail_queue_pair = true};
  }
}

protocol_step connection::on_dreq(const wire::cm_message& dreq) {
  switch (state_) {
    case state::established:
    case state::rep_sent:
    case state::rep_received:
    case state::dreq_sent:  // both ends at once
      request_.stop();
      transaction_ = dreq.transaction;
      state_ = state::dreq_received;
      return {.peer = watch::stop,
              .notify = protocol_step::notification{.event = protocol_event::disconnected}};
    case state::timewait:
    case state::closed:  // the DREP was lost
      transaction_ = dreq.transaction;
      return send(message_of(cm_kind::drep));
    default:
      return {};
  }
}

protocol_step connection::abandon() {
  const auto before = state_;
  request_.stop();
  switch (before) {
    case state::req_received:
    case state::rep_received: {
      wire::cm_message rej;
      rej.reason = static_cast<std::uint16_t>(wire::reject_reason::consumer);
      return reject(rej);
    }
    case state::req_sent: {
      // The peer's comm id is not known yet: it recognises the request by this side's.
      auto rej = message_of(cm_kind::rej);
      rej.reason = static_cast<std::uint16_t>(wire::reject_reason::timeout);
      rej.service_id = service_id_;
      wire::put_guid(rej, ca_guid_);
      state_ = state::closed;
      return send(rej);
    }
    case state::rep_sent: {
      auto rej = message_of(cm_kind::rej);
      rej.answered = wire::cm_answered::rep;
      rej.reason = static_cast<std::uint16_t>(wire::reject_reason::consumer);
      state_ = state::closed;
      return send(rej);
    }
    case state::established:
      state_ = state::closed;
      return send(dreq());
    case state::dreq_received:
      state_ = state::closed;
      return send(message_of(cm_kind::drep));
    default:
      state_ = state::closed;
      return {};
  }
}

// --- from the network and the host -----------------------------------------------------------

bool connection::is_for_this(const wire::cm_message& message, bool same_host) const {
  if (peer_comm_id_ == 0) {
    // It is not known yet who answers. On this host an answer is known by the transaction id, which
    // only the receiver of the request knows.
    return message.remote_id == comm_id_ && (!same_host || message.transaction == transaction_);
  }
  // Anything else is of an earlier connection with the same comm id.
  return message.local_id == peer_comm_id_ &&
         (message.remote_id == comm_id_ || wire::withdraws_request(message));
}

protocol_step connection::on_message(const wire::cm_message& message, bool same_host,
                                     time_point now) {
  if (state_ == state::idle) return {};
  if (message.kind == cm_kind::req)
    return !active_ && message.local_id == peer_comm_id_ ? on_repeated_request() : protocol_step{};
  return is_for_this(message, same_host) ? on_message_of_peer(message, now) : protocol_step{};
}

protocol_step connection::on_message_of_peer(const wire::cm_message& message, time_point now) {
  switch (message.kind) {
    case cm_kind::rep:
      return on_rep(message);
    case cm_kind::rej:
      return on_rej(message, now);
    case cm_kind::mra:
      if (state_ == state::req_sent || state_ == state::rep_sent)
        request_.postpone(now, message.service_timeout);
      return {};
    case cm_kind::rtu:
      return state_ == state::rep_sent ? data_arrived() : protocol_step{};
    case cm_kind::dreq:
      return on_dreq(message);
    case cm_kind::drep: {
      if (state_ != state::dreq_sent) return {};
      auto step = enter_timewait(now);
      step.notify = protocol_step::notification{.event = protocol_event::disconnected};
      return step;
    }
    default:
      return {};
  }
}

protocol_step connection::on_timer(time_point now) {
  if (now < due()) return {};
  if (state_ == state::timewait) {
    state_ = state::closed;
    timewait_end_ = engine::never;
    return {.notify = protocol_step::notification{.event = protocol_event::timewait_exit}};
  }
  if (const auto again = request_.on_timer(now)) return send(*again);
  if (state_ == state::req_sent || state_ == state::rep_sent)
    return close({.event = protocol_event::unreachable, .status = -ETIMEDOUT});
  if (state_ != state::dreq_sent) return {};
  auto step = enter_timewait(now);
  step.notify =
      protocol_step::notification{.event = protocol_event::disconnected, .status = -ETIMEDOUT};
  return step;
}

protocol_step connection::on_peer_gone(time_point now) {
  switch (state_) {
    case state::established:
    case state::rep_received:
    case state::rep_sent:
    case state::dreq_sent: {
      auto step = enter_timewait(now);
      step.fail_queue_pair = true;
      step.notify = protocol_step::notification{.event = protocol_event::disconnected};
      return step;
    }
    default:
      return {};
  }
}

protocol_step connection::on_send_failure(int failure, time_point now) {
  const auto waiting = request_.message();
  if (!waiting) {
    // A peer that has gone needs no REJ or DREP; but a user who sends an RTU learns of it.
    const bool is_error = failure != ECONNREFUSED || state_ == state::established;
    return {.error = is_error ? failure : 0};
  }
  if (failure != ECONNREFUSED)
    return request_.is_first_sending() ? on_first_send_failure(failure, now) : protocol_step{};
  // A request may have been taken by a process whose listener has gone since: it may still answer.
  // Everything else goes to a process, and that has gone.
  if (state_ == state::req_sent && request_.on_undelivered(now)) return {};
  const auto answer = wire::answer_without_receiver(*waiting);
  return answer ? on_message_of_peer(*answer, now) : protocol_step{};
}

protocol_step connection::on_first_send_failure(int failure, time_point now) {
  request_.stop();
  switch (state_) {
    case state::req_sent:
      state_ = state::idle;
      return {.error = failure};
    case state::rep_sent:
      state_ = state::req_received;
      return {.error = failure, .peer = watch::stop};
    default: {
      auto step = enter_timewait(now);
      step.notify =
          protocol_step::notification{.event = protocol_event::disconnected, .status = -failure};
      return step;
    }
  }
}

}  // namespace softverbs::cm
