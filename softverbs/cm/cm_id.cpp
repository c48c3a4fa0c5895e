#include <cm/cm_id.hpp>

#include <cerrno>

#include <base/log.hpp>
#include <base/random.hpp>
#include <cm/messages.hpp>
#include <cm/qp_attributes.hpp>
#include <engine/netdev_port.hpp>
#include <net/netdev.hpp>

namespace softverbs::cm {
namespace {

using engine::clock;
using wire::cm_kind;

std::uint32_t random_psn() { return random_number<std::uint32_t>() & wire::psn_mask; }

ibv_ece ece_of(const wire::cm_message& message) {
  return {.vendor_id = message.vendor_id, .options = message.vendor_options, .comp_mask = 0};
}

rdma_cm_event_type type_of(protocol_event what) {
  switch (what) {
    case protocol_event::replied:
      return RDMA_CM_EVENT_CONNECT_RESPONSE;
    case protocol_event::established:
      return RDMA_CM_EVENT_ESTABLISHED;
    case protocol_event::rejected:
      return RDMA_CM_EVENT_REJECTED;
    case protocol_event::unreachable:
      return RDMA_CM_EVENT_UNREACHABLE;
    case protocol_event::disconnected:
      return RDMA_CM_EVENT_DISCONNECTED;
    case protocol_event::timewait_exit:
      break;
  }
  return RDMA_CM_EVENT_TIMEWAIT_EXIT;
}

}  // namespace

cm_id::cm_id(agent& owner, event_channel& events_go_to, void* user_context, rdma_port_space space,
             ibv_qp_type type)
    : rdma_cm_id{}, manager(owner), address(*this), events(*this, events_go_to), requests(*this) {
  channel = &events_go_to;
  context = user_context;
  ps = space;
  qp_type = type;
  manager.ids.add(*this);
}

cm_id::~cm_id() {
  retire();
  manager.ids.remove(*this);
}

void cm_id::retire() noexcept {
  if (retired_) return;
  retired_ = true;
  try {
    const auto step = with_machine([](auto& machine) { return machine.abandon(); });
    if (step.send) static_cast<void>(send(*step.send));
  } catch (...) {
    log(log_level::error, "no memory was left to tell a peer that its connection has ended");
  }
  set_timer(engine::never);
  unwatch_peer();
  if (comm_id_ != 0) manager.ids.release_comm_id(comm_id_);
  if (request_) manager.ids.forget_request(*request_);
  if (address.reservation() != nullptr) manager.stop_listening(*address.reservation());
}

// --- the state machine -----------------------------------------------------------------------

bool cm_id::is_idle() const noexcept {
  return is_datagram() ? sidr_.current_state() == sidr_exchange::state::idle
                       : connection_.current_state() == connection::state::idle;
}

bool cm_id::is_requested() const noexcept {
  return is_datagram() ? sidr_.current_state() == sidr_exchange::state::req_received
                       : connection_.current_state() == connection::state::req_received;
}

int cm_id::carry_out(const protocol_step& step) {
  if (step.fail_queue_pair) fail_queue_pair();
  if (step.peer == protocol_step::watch::start) watch_peer();
  if (step.peer == protocol_step::watch::stop) unwatch_peer();
  set_timer(with_machine([](const auto& machine) { return machine.due(); }));
  int error = step.error;
  if (const int failure = step.send ? send(*step.send) : 0) {
    error = carry_out(with_machine(
        [&](auto& machine) { return machine.on_send_failure(failure, clock::now()); }));
  }
  if (step.notify) notify_user(*step.notify);
  return error;
}

int cm_id::send(const wire::cm_message& message) const {
  const auto& both = address.both();
  return engine::send_management(*address.device()->place, both.own, both.peer, message);
}

void cm_id::set_timer(engine::time_point when) {
  if (when == timer_) return;
  timer_ = when;
  manager.set_timer(*this, when);
}

void cm_id::watch_peer() {
  const auto& both = address.both();
  if (net::is_local(both.peer)) {
    manager.watch_peer(*this, both.peer,
                       static_cast<std::uint16_t>(connection_.peer_comm_id() >> 16U));
    return;
  }
  // A peer on another host cannot notice that this process ends; a neighbour can tell it.
  manager.liveness.register_orphan_disconnect(
      comm_id_, {.own = both.own, .peer = both.peer, .dreq = wire::encode(connection_.dreq())});
}

void cm_id::unwatch_peer() {
  manager.unwatch_peer(*this);
  manager.liveness.withdraw_orphan_disconnect(comm_id_);
}

void cm_id::fail_queue_pair() const {
  if (qp != nullptr) fail_qp(qp);
}

void cm_id::notify_user(const protocol_step::notification& about) {
  auto& made = events.make(type_of(about.event), about.status);
  if (about.message) {
    const auto& message = *about.message;
    put_private_data(made, message);
    if (about.event == protocol_event::replied) {
      remote_ece = ece_of(message);
      put_terms(made, message);
    } else if (message.kind == cm_kind::sidr_rep && about.event == protocol_event::established) {
      auto& service = made.param.ud;
      service.qp_num = message.qpn;
      service.qkey = message.qkey;
      service.ah_attr = address.path_to(address.both().peer);
      service.ah_attr.grh.traffic_class = address.chosen().type_of_service;
      service.ah_attr.grh.flow_label = flow_label(own_qpn_, message.qpn);
    }
  }
  events.raise(made);
}

// --- the active side -------------------------------------------------------------------------

int cm_id::connect(const rdma_conn_param* wanted) {
  if (address.current_state() != addressing::state::route_resolved || !is_idle()) return EINVAL;
  auto& device = *address.device();
  const auto management_port = device.place->ports().management_port();
  if (management_port == 0) return errno;
  if (comm_id_ == 0) comm_id_ = manager.ids.assign_comm_id(*this, management_port);
  if (comm_id_ == 0) return ENOMEM;
  rdma_conn_param terms{};
  terms.responder_resources = static_cast<std::uint8_t>(device.attributes.max_qp_rd_atom);
  terms.initiator_depth = static_cast<std::uint8_t>(device.attributes.max_qp_init_rd_atom);
  terms.retry_count = 7;
  terms.rnr_retry_count = 7;
  if (wanted != nullptr) terms = *wanted;
  const auto request = make_request(*this, address, terms, local_ece,
                                    {.transaction = random_number<std::uint64_t>(),
                                     .comm_id = comm_id_,
                                     .service_id = service_id(ps, address.both().peer_port),
                                     .ca_guid = manager.ca_guid(),
                                     .starting_psn = random_psn()});
  if (!request) return EINVAL;
  own_qpn_ = request->qpn;
  manager.liveness.announce(address.both().own, management_port);
  return carry_out(
      with_machine([&](auto& machine) { return machine.connect(*request, clock::now()); }));
}

void cm_id::on_response_seen(cm_event& seen) {
  if (qp == nullptr) return;  // the user calls rdma_establish
  const bool is_waiting = connection_.current_state() == connection::state::rep_received;
  const int failure = is_waiting ? make_qp_ready(qp, address, connection_.terms()) : ECONNRESET;
  if (failure != 0) {
    seen.event = RDMA_CM_EVENT_CONNECT_ERROR;
    seen.status = -failure;
    static_cast<void>(reject({}, wire::reject_reason::consumer));
    return;
  }
  seen.event = RDMA_CM_EVENT_ESTABLISHED;
  static_cast<void>(establish());
}

int cm_id::establish() { return is_datagram() ? EINVAL : carry_out(connection_.establish()); }

// --- the passive side ------------------------------------------------------------------------

bool cm_id::receive_request(const engine::management_datagram& datagram, local_device& device,
                            std::uint16_t own_port) {
  const auto& message = datagram.message;
  const auto management_port = device.place->ports().management_port();
  if (management_port == 0) return false;
  comm_id_ = manager.ids.assign_comm_id(*this, management_port);
  if (comm_id_ == 0) return false;
  address.adopt(device,
                {.own = datagram.destination,
                 .peer = datagram.source,
                 .own_port = own_port,
                 .peer_port = source_port_of(message)},
                message);
  request_ = {.source = datagram.source, .ca_guid = message.ca_guid, .comm_id = message.local_id};
  manager.ids.remember_request(*request_, *this);
  remote_ece = ece_of(message);
  if (is_datagram()) {
    sidr_.receive_request(message);
  } else {
    connection_.receive_request(message, comm_id_, random_psn());
  }
  return true;
}

int cm_id::accept(const rdma_conn_param* wanted) {
  // As the kernel's: a datagram request that was refused can be accepted, to no effect.
  if (is_datagram() && sidr_.current_state() == sidr_exchange::state::closed) return 0;
  if (!is_requested()) return EINVAL;
  rdma_conn_param terms{};
  terms.responder_resources = connection_.terms().responder_resources;
  terms.initiator_depth = connection_.terms().initiator_depth;
  terms.rnr_retry_count = 7;
  if (wanted != nullptr) terms = *wanted;
  const int failure = try_to_accept(terms);
  if (failure != 0 && is_requested()) {
    // As the kernel does: a peer that cannot be accepted shall not wait.
    fail_queue_pair();
    static_cast<void>(reject({}, wire::reject_reason::consumer));
  }
  return failure;
}

int cm_id::try_to_accept(const rdma_conn_param& wanted) {
  manager.liveness.announce(address.both().own, management_port());
  if (is_datagram()) {
    wire::cm_message message{.kind = cm_kind::sidr_rep};
    if (!put_private_data(message, wanted.private_data, wanted.private_data_len)) return EINVAL;
    message.qpn = qp != nullptr ? qp->qp_num : wanted.qp_num;
    message.qkey = RDMA_UDP_QKEY;
    return carry_out(sidr_.accept(message));
  }
  auto terms = connection_.terms();
  const auto reply = make_reply(*this, wanted, local_ece, manager.ca_guid(), terms.own_psn);
  if (!reply) return EINVAL;
  terms.own_qpn = reply->qpn;
  terms.responder_resources = wanted.responder_resources;
  terms.initiator_depth = wanted.initiator_depth;
  if (const int failure = qp != nullptr ? make_qp_ready(qp, address, terms) : 0) return failure;
  return carry_out(connection_.accept(*reply, clock::now()));
}

int cm_id::reject(std::span<const std::byte> private_data, wire::reject_reason reason) {
  wire::cm_message message{.kind = is_datagram() ? cm_kind::sidr_rep : cm_kind::rej};
  if (!put_private_data(message, private_data.data(), private_data.size())) return EINVAL;
  message.reason = static_cast<std::uint16_t>(reason);
  message.status = wire::sidr_status::rejected;
  return carry_out(with_machine([&](auto& machine) { return machine.reject(message); }));
}

int cm_id::data_arrived() {
  if (!is_datagram()) return carry_out(connection_.data_arrived());
  return sidr_.current_state() == sidr_exchange::state::resolved ? EISCONN : EINVAL;
}

// --- the end ---------------------------------------------------------------------------------

int cm_id::disconnect() {
  if (address.current_state() == addressing::state::listening) {
    fail_queue_pair();
    return 0;
  }
  return carry_out(is_datagram() ? sidr_.disconnect() : connection_.disconnect(clock::now()));
}

void cm_id::on_message(const engine::management_datagram& datagram) {
  const auto& peer = address.both().peer;
  if (datagram.source != peer) return;
  const bool same_host = net::is_local(peer);
  static_cast<void>(carry_out(with_machine([&](auto& machine) {
    return machine.on_message(datagram.message, same_host, clock::now());
  })));
}

void cm_id::on_timer(engine::time_point now) {
  timer_ = engine::never;
  static_cast<void>(carry_out(with_machine([&](auto& machine) { return machine.on_timer(now); })));
}

void cm_id::on_peer_gone() {
  if (!is_datagram()) static_cast<void>(carry_out(connection_.on_peer_gone(clock::now())));
}

// --- what the user sees ----------------------------------------------------------------------

void cm_id::prepare(cm_event& seen) {
  auto& who = of(seen.id);
  if (seen.event == RDMA_CM_EVENT_CONNECT_REQUEST) {
    seen.owner->requests.request_taken();
    // What has become of the listener meanwhile holds for the new id, too.
    who.events.migrate_to(seen.owner->events.channel());
    who.context = seen.owner->context;
  } else if (seen.event == RDMA_CM_EVENT_CONNECT_RESPONSE) {
    who.on_response_seen(seen);
  } else if (seen.event == RDMA_CM_EVENT_REJECTED) {
    who.fail_queue_pair();
  }
}

int cm_id::describe_qp(ibv_qp_attr& attributes, int& mask) const {
  std::optional<connection_terms> terms;
  if (!is_datagram() && !is_idle()) {
    if (connection_.current_state() >= connection::state::dreq_sent) return EINVAL;
    terms = connection_.terms();
  }
  return cm::describe_qp(address, is_datagram(), terms, attributes, mask);
}

}  // namespace softverbs::cm
