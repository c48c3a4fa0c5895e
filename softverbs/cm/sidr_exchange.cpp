#include <cm/sidr_exchange.hpp>

#include <cerrno>

namespace softverbs::cm {

using engine::time_point;
using wire::cm_kind;

// --- the client ------------------------------------------------------------------------------

protocol_step sidr_exchange::connect(const wire::cm_message& req, time_point now) {
  if (state_ != state::idle) return {.error = EINVAL};
  request_id_ = req.local_id;
  transaction_ = req.transaction;
  service_id_ = req.service_id;
  state_ = state::req_sent;
  request_.start(req, now);
  return {.send = req};
}

protocol_step sidr_exchange::on_answer(const wire::cm_message& rep) {
  request_.stop();
  const bool success = rep.status == wire::sidr_status::success;
  state_ = success ? state::resolved : state::closed;
  return {.notify = protocol_step::notification{
              .event = success ? protocol_event::established : protocol_event::unreachable,
              .status = static_cast<int>(rep.status),
              .message = rep}};
}

// --- the server ------------------------------------------------------------------------------

void sidr_exchange::receive_request(const wire::cm_message& req) {
  request_id_ = req.local_id;
  transaction_ = req.transaction;
  service_id_ = req.service_id;
  state_ = state::req_received;
}

protocol_step sidr_exchange::answer(wire::cm_message rep, state next) {
  rep.kind = cm_kind::sidr_rep;
  rep.transaction = transaction_;
  rep.local_id = request_id_;
  rep.service_id = service_id_;
  answer_ = rep;
  state_ = next;
  return {.send = rep};
}

protocol_step sidr_exchange::accept(const wire::cm_message& rep) {
  if (state_ == state::closed) return {};  // it was refused already
  if (state_ != state::req_received) return {.error = EINVAL};
  accepting_ = true;
  return answer(rep, state::resolved);
}

protocol_step sidr_exchange::reject(const wire::cm_message& rep) {
  if (state_ != state::req_received) return {.error = EINVAL};
  return answer(rep, state::closed);
}

// --- the end ---------------------------------------------------------------------------------

protocol_step sidr_exchange::disconnect() const {
  return {.error = state_ == state::idle ? EINVAL : 0, .fail_queue_pair = true};
}

protocol_step sidr_exchange::abandon() {
  request_.stop();
  if (state_ != state::req_received) {
    state_ = state::closed;
    return {};
  }
  wire::cm_message refusal;
  refusal.status = wire::sidr_status::rejected;
  return answer(refusal, state::closed);
}

// --- from the network ------------------------------------------------------------------------

protocol_step sidr_exchange::on_message(const wire::cm_message& message, bool same_host,
                                        time_point /*now*/) {
  accepting_ = false;
  if (message.local_id != request_id_) return {};
  if (message.kind == cm_kind::sidr_req)
    return answer_ ? protocol_step{.send = answer_} : protocol_step{};
  if (message.kind != cm_kind::sidr_rep || state_ != state::req_sent) return {};
  // On this host an answer is known by the transaction id, which only the receiver of the request
  // knows.
  if (same_host && message.transaction != transaction_) return {};
  return on_answer(message);
}

protocol_step sidr_exchange::on_timer(time_point now) {
  if (state_ != state::req_sent || now < due()) return {};
  if (const auto again = request_.on_timer(now)) return {.send = again};
  state_ = state::closed;
  return {.notify = protocol_step::notification{.event = protocol_event::unreachable,
                                                .status = -ETIMEDOUT}};
}

protocol_step sidr_exchange::on_send_failure(int failure, time_point now) {
  if (const auto waiting = request_.message()) {
    if (failure != ECONNREFUSED) {
      if (!request_.is_first_sending()) return {};
      request_.stop();
      state_ = state::idle;
      return {.error = failure};
    }
    if (request_.on_undelivered(now)) return {};
    const auto refusal = wire::answer_without_receiver(*waiting);
    return refusal ? on_answer(*refusal) : protocol_step{};
  }
  // The client is not there any more: it does not need the answer.
  if (failure == ECONNREFUSED) return {};
  if (accepting_) {  // the user may try again
    accepting_ = false;
    answer_.reset();
    state_ = state::req_received;
  }
  return {.error = failure};
}

}  // namespace softverbs::cm
