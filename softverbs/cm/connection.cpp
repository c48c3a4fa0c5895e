// What an identifier says to its peer: the states and messages of a connection (12.9), and of the
// resolution of a service to a queue pair (SIDR, 12.11).
#include <algorithm>
#include <cerrno>
#include <cstring>

#include <base/random.hpp>
#include <cm/identifier.hpp>
#include <engine/station.hpp>
#include <net/netdev.hpp>
#include <verbs/soft_verbs.hpp>

namespace softverbs::cm {
namespace {

using namespace std::chrono_literals;
using wire::cm_kind;

// What the kernel's connection manager tells its peers.
constexpr std::uint8_t response_timeout = 20;  // 4.3 s
constexpr std::uint8_t most_repetitions = 15;
constexpr std::uint8_t path_life_time = 18;
constexpr std::uint8_t receipt_timeout = 24;  // 68 s
// A message is repeated sooner than a peer has to answer: that does no harm.
constexpr engine::clock::duration first_repetition = 200ms;
constexpr engine::clock::duration slowest_repetition = 4300ms;
// Programs listen anew for each connection, and their peers reckon with the time that a network
// takes: nobody is refused before this many attempts.
constexpr unsigned attempts_to_find_a_listener = 10;
constexpr engine::clock::duration between_attempts = 5ms;

/// In front of the user's private data of a request (annex A11).
struct ip_header {
  std::uint8_t version = 0;
  std::uint8_t ip_version = 0;  ///< in the upper half
  std::uint16_t port = 0;
  std::array<std::uint8_t, 16> source{};
  std::array<std::uint8_t, 16> destination{};
};
static_assert(sizeof(ip_header) == 36);

std::array<std::uint8_t, 16> bytes_of(const net::address& address) {
  if (!address.is_ipv4()) return address.raw;
  std::array<std::uint8_t, 16> bytes{};
  std::copy_n(address.raw.begin() + 12, 4, bytes.begin() + 12);
  return bytes;
}

/// The same in both directions, and never 0.
std::uint32_t flow_label(std::uint32_t one, std::uint32_t other) {
  return (((one * 31 + other * 31) ^ (one ^ other) >> 12U) & 0xfffffU) | 1U;
}

std::chrono::nanoseconds time_of(unsigned code) {
  return std::chrono::nanoseconds(std::int64_t{4096} << code);
}

}  // namespace

// --- messages --------------------------------------------------------------------------------

wire::cm_message identifier::message_of(cm_kind kind) const {
  wire::cm_message message{
      .kind = kind, .transaction = transaction_, .local_id = number_, .remote_id = peer_number_};
  if (kind == cm_kind::disconnect_request) message.qpn = peer_qpn_;
  if (kind == cm_kind::sidr_reply) {
    message.local_id = peer_number_;
    message.service_id = service_;
  }
  return message;
}

int identifier::put_private_data(wire::cm_message& message, const void* data, std::size_t bytes,
                                 bool with_addresses) const {
  std::size_t at = 0;
  if (with_addresses) {
    const ip_header header{.ip_version = static_cast<std::uint8_t>(own_.is_ipv4() ? 0x40 : 0x60),
                           .port = htons(port_),
                           .source = bytes_of(own_),
                           .destination = bytes_of(peer_)};
    std::memcpy(message.private_data.data(), &header, sizeof header);
    at = sizeof header;
  }
  if (at + bytes > wire::private_bytes(message.kind)) return EINVAL;
  if (bytes > 0) std::memcpy(message.private_data.data() + at, data, bytes);
  return 0;
}

void identifier::copy_private_data(cm_event& news, const wire::cm_message& message,
                                   std::size_t skip) const {
  const auto bytes = wire::private_bytes(message.kind) - skip;
  std::copy_n(message.private_data.begin() + static_cast<std::ptrdiff_t>(skip), bytes,
              news.data.begin());
  if (is_datagram()) {
    news.param.ud.private_data = news.data.data();
    news.param.ud.private_data_len = static_cast<std::uint8_t>(bytes);
  } else {
    news.param.conn.private_data = news.data.data();
    news.param.conn.private_data_len = static_cast<std::uint8_t>(bytes);
  }
}

int identifier::send(const wire::cm_message& message) {
  return engine::send_management(*device_->place, own_, peer_, message);
}

void identifier::answer_for_nobody(const wire::cm_message& message) {
  // Nobody of this host wants it: what another host would answer.
  const auto answer = engine::answer_of_nobody(message);
  if (answer) agent_.post({.message = *answer, .source = peer_, .destination = own_});
}

void identifier::look_for_listener(const wire::cm_message& message) {
  if (attempts_left_ <= 1) {
    attempts_left_ = 0;
    repeated_.reset();
    answer_for_nobody(message);
    return;
  }
  --attempts_left_;
  repeated_ = message;
  agent_.set_timer(*this, engine::clock::now() + between_attempts);
}

int identifier::send_repeatedly(const wire::cm_message& message) {
  const int failure = send(message);
  if (failure == ECONNREFUSED) {
    look_for_listener(message);
    return 0;
  }
  if (failure != 0) return failure;
  attempts_left_ = 0;
  repeated_ = message;
  repetitions_left_ = most_repetitions;
  repeat_after_ = first_repetition;
  agent_.set_timer(*this, engine::clock::now() + repeat_after_);
  return 0;
}

void identifier::stop_repeating() {
  repeated_.reset();
  agent_.set_timer(*this, engine::never);
}

void identifier::on_timer(engine::time_point now) {
  if (phase_ == phase::timewait) {
    phase_ = phase::closed;
    raise(RDMA_CM_EVENT_TIMEWAIT_EXIT);
    return;
  }
  if (!repeated_) return;
  if (attempts_left_ > 0) {  // it has reached nobody so far
    const auto message = *repeated_;
    static_cast<void>(send_repeatedly(message));
    return;
  }
  if (repetitions_left_ > 0) {
    --repetitions_left_;
    repeat_after_ = std::min(2 * repeat_after_, slowest_repetition);
    agent_.set_timer(*this, now + repeat_after_);
    // A request may have been taken by a user whose listener is gone: no reason to give up. All
    // others go to a process, and that is gone.
    if (send(*repeated_) == ECONNREFUSED && phase_ != phase::connecting)
      answer_for_nobody(*repeated_);
    return;
  }
  repeated_.reset();
  switch (phase_) {
    case phase::connecting:
    case phase::accepted:
      unwatch_peer();
      phase_ = phase::closed;
      raise(RDMA_CM_EVENT_UNREACHABLE, -ETIMEDOUT);
      break;
    case phase::disconnecting:
      enter_timewait();
      raise(RDMA_CM_EVENT_DISCONNECTED, -ETIMEDOUT);
      break;
    default:
      break;
  }
}

void identifier::queue_pair_fails() const {
  if (qp == nullptr) return;
  ibv_qp_attr wanted{};
  wanted.qp_state = IBV_QPS_ERR;
  static_cast<void>(verbs::modify_qp(qp, &wanted, IBV_QP_STATE));
}

void identifier::unwatch_peer() {
  agent_.unwatch_neighbour(*this);
  agent_.revoke(number_);
}

void identifier::enter_timewait() {
  stop_repeating();
  unwatch_peer();
  phase_ = phase::timewait;
  // As the kernel counts: a path's life time in units that are powers of two.
  const unsigned code = std::max<unsigned>(path_timeout_, 8);
  agent_.set_timer(*this, engine::clock::now() + std::chrono::milliseconds(1U << (code - 8)));
}

void identifier::watch_peer() {
  if (!net::is_local(peer_)) {
    // Nobody tells this process of the other's end, but a neighbour can tell the other of this
    // one's.
    auto farewell = message_of(cm_kind::disconnect_request);
    agent_.bequeath(number_, {.own = own_, .peer = peer_, .message = wire::encode(farewell)});
    return;
  }
  agent_.watch_neighbour(*this, peer_, static_cast<std::uint16_t>(peer_number_ >> 16U));
}

void identifier::on_neighbour_gone() {
  switch (phase_) {
    case phase::established:
    case phase::replied:
    case phase::accepted:
    case phase::disconnecting: {
      queue_pair_fails();
      enter_timewait();
      raise(RDMA_CM_EVENT_DISCONNECTED);
      break;
    }
    default:
      break;
  }
}

std::uint8_t identifier::acknowledge_timeout() const {
  return acknowledge_timeout_.value_or(path_life_time + 1);
}

// --- the active side -------------------------------------------------------------------------

int identifier::connect(const rdma_conn_param* wanted) {
  if (phase_ != phase::route_resolved) return EINVAL;
  const auto management_port = device_->place->management_port();
  if (management_port == 0) return errno;
  rdma_conn_param terms{};
  terms.responder_resources = static_cast<std::uint8_t>(device_->attributes.max_qp_rd_atom);
  terms.initiator_depth = static_cast<std::uint8_t>(device_->attributes.max_qp_init_rd_atom);
  terms.retry_count = 7;
  terms.rnr_retry_count = 7;
  if (wanted != nullptr) terms = *wanted;
  const auto kind = is_datagram() ? cm_kind::sidr_request : cm_kind::request;
  wire::cm_message message{.kind = kind};
  if (const int failure =
          put_private_data(message, terms.private_data, terms.private_data_len, true))
    return failure;
  if (number_ == 0) number_ = agent_.enter(*this, management_port);
  if (number_ == 0) return ENOMEM;
  agent_.show_life(own_, management_port);
  transaction_ = random_number<std::uint64_t>();
  service_ = service_id(ps, peer_port_);
  own_psn_ = agent::random_psn();
  own_qpn_ = qp != nullptr ? qp->qp_num : terms.qp_num;
  responder_resources_ = terms.responder_resources;
  initiator_depth_ = terms.initiator_depth;
  retry_count_ = std::min<std::uint8_t>(terms.retry_count, 7);
  rnr_retry_count_ = std::min<std::uint8_t>(terms.rnr_retry_count, 7);
  path_timeout_ = acknowledge_timeout();

  message.transaction = transaction_;
  message.vendor_id = local_ece.vendor_id;
  message.vendor_options = local_ece.options;
  message.local_id = number_;
  message.service_id = service_;
  message.ca_guid = agent_.ca_guid();
  message.qpn = own_qpn_;
  message.starting_psn = own_psn_;
  message.responder_resources = responder_resources_;
  message.initiator_depth = initiator_depth_;
  message.flow_control = terms.flow_control != 0;
  message.retry_count = retry_count_;
  message.rnr_retry_count = rnr_retry_count_;
  message.srq = qp != nullptr ? qp->srq != nullptr : terms.srq != 0;
  if (qp_type == IBV_QPT_XRC_SEND) {
    message.transport_service = 3;
    message.extended_transport = 1;
  }
  message.path_mtu = static_cast<std::uint8_t>(mtu_);
  message.remote_response_timeout = message.local_response_timeout = response_timeout;
  message.max_cm_retries = most_repetitions;
  message.local_lid = message.remote_lid = 0xffff;
  message.local_gid = own_;
  message.remote_gid = peer_;
  message.packet_rate = 13;
  message.traffic_class = type_of_service_;
  message.hop_limit = 64;
  // As the kernel does: one more than what was chosen.
  if (acknowledge_timeout_) path_timeout_ = std::min<std::uint8_t>(path_timeout_ + 1, 31);
  message.ack_timeout = path_timeout_;
  phase_ = phase::connecting;
  attempts_left_ = attempts_to_find_a_listener;
  if (const int failure = send_repeatedly(message)) {
    phase_ = phase::route_resolved;
    return failure;
  }
  return 0;
}

void identifier::settle_connection(const wire::cm_message& message) {
  peer_number_ = message.local_id;
  peer_qpn_ = message.qpn;
  peer_psn_ = message.starting_psn;
}

void identifier::fill_connection_event(cm_event& news, const wire::cm_message& message) {
  auto& told = news.param.conn;
  // The peer's depth is what this side has to hold resources for, and the other way round.
  told.responder_resources = message.initiator_depth;
  told.initiator_depth = message.responder_resources;
  told.flow_control = message.flow_control ? 1 : 0;
  told.rnr_retry_count = message.rnr_retry_count;
  told.srq = message.srq ? 1 : 0;
  told.qp_num = message.qpn;
  requested_responder_resources = told.responder_resources;
  requested_initiator_depth = told.initiator_depth;
}

void identifier::on_reply(const wire::cm_message& message) {
  if (phase_ == phase::established) {
    static_cast<void>(send(message_of(cm_kind::ready)));  // the first one got lost
    return;
  }
  if (phase_ == phase::replied) {
    send_receipt(wire::cm_answered::reply);
    return;
  }
  if (phase_ != phase::connecting || is_datagram()) return;
  stop_repeating();
  settle_connection(message);
  remote_ece = {.vendor_id = message.vendor_id, .options = message.vendor_options, .comp_mask = 0};
  responder_resources_ = message.initiator_depth;
  initiator_depth_ = message.responder_resources;
  rnr_retry_count_ = message.rnr_retry_count;
  phase_ = phase::replied;
  watch_peer();
  auto& news = make_event(RDMA_CM_EVENT_CONNECT_RESPONSE, 0);
  fill_connection_event(news, message);
  copy_private_data(news, message, 0);
  raise(news);
}

int identifier::establish() {
  if (phase_ != phase::replied) return EINVAL;
  phase_ = phase::established;
  return send(message_of(cm_kind::ready));
}

void identifier::on_rejection(const wire::cm_message& message) {
  switch (phase_) {
    case phase::requested:  // the peer has lost its patience
      phase_ = phase::closed;
      return;
    case phase::disconnecting:
      enter_timewait();
      raise(RDMA_CM_EVENT_DISCONNECTED);
      return;
    case phase::established:  // by a peer that had not heard of it yet
    case phase::connecting:
    case phase::accepted:
    case phase::replied:
      break;
    default:
      return;
  }
  stop_repeating();
  unwatch_peer();
  phase_ = phase::closed;
  auto& news = make_event(RDMA_CM_EVENT_REJECTED, message.reason);
  copy_private_data(news, message, 0);
  raise(news);
}

void identifier::on_sidr_reply(const wire::cm_message& message) {
  if (phase_ != phase::connecting || !is_datagram()) return;
  stop_repeating();
  if (message.status != wire::sidr_status::success) {
    phase_ = phase::closed;
    auto& news = make_event(RDMA_CM_EVENT_UNREACHABLE, static_cast<int>(message.status));
    copy_private_data(news, message, 0);
    raise(news);
    return;
  }
  phase_ = phase::established;
  auto& news = make_event(RDMA_CM_EVENT_ESTABLISHED, 0);
  copy_private_data(news, message, 0);
  auto& told = news.param.ud;
  told.qp_num = message.qpn;
  told.qkey = message.qkey;
  told.ah_attr = path_to(peer_);
  told.ah_attr.grh.traffic_class = type_of_service_;
  told.ah_attr.grh.flow_label = flow_label(own_qpn_, message.qpn);
  raise(news);
}

// --- the passive side ------------------------------------------------------------------------

void identifier::on_request(const engine::management_datagram& datagram) {
  const auto& message = datagram.message;
  // Too many that the user has not looked at: the peer will ask again.
  if (backlog_left_ == 0) return;
  auto* const device = device_with(datagram.destination);
  if (device == nullptr) return;
  const auto management_port = device->place->management_port();
  if (management_port == 0) return;
  ip_header header;
  std::memcpy(&header, message.private_data.data(), sizeof header);
  auto made = std::make_unique<identifier>(agent_, *events_, context, ps, qp_type);
  made->device_ = device;
  made->verbs = device->verbs;
  made->port_num = 1;
  made->pd = device->pd;
  made->own_ = datagram.destination;
  made->peer_ = datagram.source;
  made->port_ = port_;
  made->peer_port_ = ntohs(header.port);
  made->phase_ = phase::requested;
  made->number_ = agent_.enter(*made, management_port);
  if (made->number_ == 0) return;
  made->peer_number_ = message.local_id;
  made->transaction_ = message.transaction;
  made->service_ = message.service_id;
  made->type_of_service_ = message.traffic_class;
  made->own_psn_ = agent::random_psn();
  made->path_timeout_ = message.ack_timeout;
  made->acknowledge_timeout_ = message.ack_timeout;
  const agent::request_key key{
      .source = datagram.source, .ca_guid = message.ca_guid, .number = message.local_id};
  made->request_ = key;
  agent_.remember_request(key, *made);
  made->remote_ece = {
      .vendor_id = message.vendor_id, .options = message.vendor_options, .comp_mask = 0};
  if (!is_datagram()) {
    made->responder_resources_ = message.initiator_depth;
    made->initiator_depth_ = message.responder_resources;
    made->settle_connection(message);
    made->retry_count_ = message.retry_count;
    made->rnr_retry_count_ = message.rnr_retry_count;
    made->mtu_ = std::min(static_cast<ibv_mtu>(message.path_mtu), device->mtu());
  }
  made->set_addresses();
  if (!is_datagram()) made->describe_path();
  --backlog_left_;
  auto& news = made->make_event(RDMA_CM_EVENT_CONNECT_REQUEST, 0);
  news.listen_id = this;
  news.owner = this;  // until the user has it, it belongs to the listener
  if (!is_datagram()) {
    made->fill_connection_event(news, message);
    news.param.conn.retry_count = message.retry_count;
  }
  made->copy_private_data(news, message, sizeof(ip_header));
  static_cast<void>(made.release());
  raise(news);
}

void identifier::on_repeated_request() {
  if (repeated_) {
    static_cast<void>(send(*repeated_));  // the answer got lost
  } else if (phase_ == phase::requested && !is_datagram()) {
    send_receipt(wire::cm_answered::request);
  }
}

void identifier::send_receipt(wire::cm_answered what) {
  // The user takes its time: the peer shall wait.
  auto message = message_of(cm_kind::receipt);
  message.answered = what;
  message.service_timeout = receipt_timeout;
  static_cast<void>(send(message));
}

int identifier::accept(const rdma_conn_param* wanted) {
  if (is_datagram() && phase_ == phase::closed) return 0;  // the peer does not wait any more
  if (phase_ != phase::requested) return EINVAL;
  const int failure = try_to_accept(wanted);
  if (failure != 0 && phase_ == phase::requested) {
    // As the kernel does: a peer that cannot be accepted shall not wait.
    queue_pair_fails();
    static_cast<void>(reject({}, wire::reject_reason::consumer));
  }
  return failure;
}

int identifier::try_to_accept(const rdma_conn_param* wanted) {
  rdma_conn_param terms{};
  terms.responder_resources = requested_responder_resources;
  terms.initiator_depth = requested_initiator_depth;
  terms.rnr_retry_count = 7;
  if (wanted != nullptr) terms = *wanted;
  own_qpn_ = qp != nullptr ? qp->qp_num : terms.qp_num;
  agent_.show_life(own_, static_cast<std::uint16_t>(number_ >> 16U));
  if (is_datagram()) {
    auto message = message_of(cm_kind::sidr_reply);
    if (const int failure =
            put_private_data(message, terms.private_data, terms.private_data_len, false))
      return failure;
    message.qpn = own_qpn_;
    message.qkey = RDMA_UDP_QKEY;
    const int failure = send(message);
    if (failure != 0 && failure != ECONNREFUSED) return failure;
    repeated_ = message;  // for requests that are repeated
    phase_ = phase::established;
    return 0;
  }
  auto message = message_of(cm_kind::reply);
  if (const int failure =
          put_private_data(message, terms.private_data, terms.private_data_len, false))
    return failure;
  responder_resources_ = terms.responder_resources;
  initiator_depth_ = terms.initiator_depth;
  if (const int failure = make_ready()) return failure;
  message.qpn = own_qpn_;
  message.starting_psn = own_psn_;
  message.responder_resources = responder_resources_;
  message.initiator_depth = initiator_depth_;
  message.target_ack_delay = 15;
  message.flow_control = terms.flow_control != 0;
  message.rnr_retry_count = std::min<std::uint8_t>(terms.rnr_retry_count, 7);
  message.srq = qp != nullptr ? qp->srq != nullptr : terms.srq != 0;
  message.ca_guid = agent_.ca_guid();
  message.vendor_id = local_ece.vendor_id;
  message.vendor_options = local_ece.options;
  if (const int failure = send_repeatedly(message)) return failure;
  phase_ = phase::accepted;
  watch_peer();
  return 0;
}

int identifier::reject(std::span<const std::byte> private_data, wire::reject_reason reason) {
  if (phase_ != phase::requested && phase_ != phase::replied) return EINVAL;
  auto message = message_of(is_datagram() ? cm_kind::sidr_reply : cm_kind::rejection);
  if (const int failure =
          put_private_data(message, private_data.data(), private_data.size(), false))
    return failure;
  message.reason = static_cast<std::uint16_t>(reason);
  if (phase_ == phase::replied) message.answered = wire::cm_answered::reply;
  message.status = wire::sidr_status::rejected;
  if (phase_ == phase::requested) repeated_ = message;  // for requests that are repeated
  phase_ = phase::closed;
  const int failure = send(message);
  return failure == ECONNREFUSED ? 0 : failure;
}

int identifier::data_has_come() {
  if (phase_ != phase::accepted) return phase_ == phase::established ? EISCONN : EINVAL;
  stop_repeating();
  phase_ = phase::established;
  raise(RDMA_CM_EVENT_ESTABLISHED);
  return 0;
}

// --- the end ---------------------------------------------------------------------------------

int identifier::disconnect() {
  switch (phase_) {
    case phase::established:
      queue_pair_fails();
      if (is_datagram()) return 0;
      stop_repeating();
      phase_ = phase::disconnecting;
      if (const int failure = send_repeatedly(message_of(cm_kind::disconnect_request))) {
        enter_timewait();
        raise(RDMA_CM_EVENT_DISCONNECTED, -failure);
      }
      return 0;
    case phase::disconnected: {
      queue_pair_fails();
      const int failure = send(message_of(cm_kind::disconnect_reply));
      enter_timewait();
      return failure == ECONNREFUSED ? 0 : failure;
    }
    case phase::idle:
    case phase::bound:
    case phase::address_resolved:
    case phase::route_resolved:
      queue_pair_fails();
      return EINVAL;
    default:
      queue_pair_fails();
      return 0;
  }
}

void identifier::on_disconnect_request(const wire::cm_message& message) {
  switch (phase_) {
    case phase::established:
    case phase::accepted:
    case phase::replied:
    case phase::disconnecting:  // both at once
      stop_repeating();
      unwatch_peer();
      transaction_ = message.transaction;
      phase_ = phase::disconnected;
      raise(RDMA_CM_EVENT_DISCONNECTED);
      return;
    case phase::timewait:
    case phase::closed:
      transaction_ = message.transaction;
      static_cast<void>(send(message_of(cm_kind::disconnect_reply)));
      return;
    default:
      return;
  }
}

void identifier::on_message(const engine::management_datagram& datagram) {
  const auto& message = datagram.message;
  if (datagram.source != peer_) return;
  // Not of an earlier connection with the same number.
  if (peer_number_ != 0 && message.kind != cm_kind::sidr_reply && message.local_id != peer_number_)
    return;
  // Before it is known who answers, an answer is known by the number that only its sender was told.
  const bool is_answer = peer_number_ == 0 || message.kind == cm_kind::sidr_reply;
  if (is_answer && message.transaction != transaction_ && net::is_local(peer_)) return;
  switch (message.kind) {
    case cm_kind::reply:
      on_reply(message);
      return;
    case cm_kind::rejection:
      on_rejection(message);
      return;
    case cm_kind::receipt:
      if (!repeated_) return;
      agent_.set_timer(*this, engine::clock::now() + time_of(message.service_timeout));
      return;
    case cm_kind::ready:
      static_cast<void>(data_has_come());
      return;
    case cm_kind::disconnect_request:
      on_disconnect_request(message);
      return;
    case cm_kind::disconnect_reply:
      if (phase_ != phase::disconnecting) return;
      enter_timewait();
      raise(RDMA_CM_EVENT_DISCONNECTED);
      return;
    case cm_kind::sidr_reply:
      on_sidr_reply(message);
      return;
    default:
      return;
  }
}

// --- what the user sees ----------------------------------------------------------------------

void identifier::prepare(cm_event& news) {
  auto& who = of(news.id);
  if (news.event == RDMA_CM_EVENT_CONNECT_REQUEST) {
    ++news.owner->backlog_left_;
    // What has become of the listener meanwhile holds for it, too.
    who.migrate_to(news.owner->events());
    who.context = news.owner->context;
  } else if (news.event == RDMA_CM_EVENT_CONNECT_RESPONSE) {
    who.on_response_seen(news);
  } else if (news.event == RDMA_CM_EVENT_REJECTED) {
    who.queue_pair_fails();
  }
}

void identifier::on_response_seen(cm_event& news) {
  if (qp == nullptr) return;  // its user calls rdma_establish
  const int failure = phase_ == phase::replied ? make_ready() : ECONNRESET;
  if (failure != 0) {
    news.event = RDMA_CM_EVENT_CONNECT_ERROR;
    news.status = -failure;
    static_cast<void>(reject({}, wire::reject_reason::consumer));
    return;
  }
  news.event = RDMA_CM_EVENT_ESTABLISHED;
  static_cast<void>(establish());
}

int identifier::make_ready() const {
  if (qp == nullptr) return 0;
  // INIT once more: what the peer may do is known only now.
  for (const auto state : {IBV_QPS_INIT, IBV_QPS_RTR, IBV_QPS_RTS}) {
    ibv_qp_attr attributes{};
    attributes.qp_state = state;
    int mask = 0;
    if (const int failure = describe(attributes, mask)) return failure;
    if (const int failure = verbs::modify_qp(qp, &attributes, mask)) return failure;
  }
  return 0;
}

int identifier::describe(ibv_qp_attr& attributes, int& mask) const {
  if (device_ == nullptr) return EINVAL;
  if (!device_->gid_index_of(own_)) return EADDRNOTAVAIL;
  if (is_listening()) return EINVAL;
  const bool before = phase_ < phase::requested;
  if (!before && !is_datagram() && phase_ >= phase::disconnecting) return EINVAL;
  const auto state = attributes.qp_state;
  attributes = {};
  attributes.qp_state = state;
  mask = IBV_QP_STATE;
  if (!before && !is_datagram() && state != IBV_QPS_INIT && peer_qpn_ == 0) return EINVAL;
  // As long as there is no peer, and without connections, the answer is the same for all states.
  switch (before || is_datagram() ? IBV_QPS_INIT : state) {
    case IBV_QPS_INIT:
      attributes.port_num = 1;
      mask |= IBV_QP_PKEY_INDEX | IBV_QP_PORT;
      if (is_datagram()) {
        attributes.qkey = RDMA_UDP_QKEY;
        mask |= IBV_QP_QKEY;
      } else {
        if (!before) attributes.qp_access_flags = IBV_ACCESS_REMOTE_WRITE;
        if (!before && responder_resources_ != 0)
          attributes.qp_access_flags |= IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC;
        mask |= IBV_QP_ACCESS_FLAGS;
      }
      return 0;
    case IBV_QPS_RTR:
      attributes.path_mtu = mtu_;
      attributes.dest_qp_num = peer_qpn_;
      attributes.rq_psn = own_psn_;
      attributes.max_dest_rd_atomic = responder_resources_;
      attributes.ah_attr = path_to(peer_);
      attributes.ah_attr.grh.traffic_class = type_of_service_;
      attributes.ah_attr.grh.flow_label = flow_label(own_qpn_, peer_qpn_);
      mask |= IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
              IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
      return 0;
    case IBV_QPS_RTS:
      mask |= IBV_QP_SQ_PSN;
      attributes.sq_psn = peer_psn_;
      attributes.timeout = acknowledge_timeout();
      attributes.retry_cnt = retry_count_;
      attributes.rnr_retry = rnr_retry_count_;
      attributes.max_rd_atomic = initiator_depth_;
      mask |= IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC;
      return 0;
    default:
      return EINVAL;
  }
}

}  // namespace softverbs::cm
