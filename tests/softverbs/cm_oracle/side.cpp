#include "side.hpp"

#include <algorithm>
#include <stdexcept>
#include <system_error>
#include <utility>

#include <poll.h>

#include "scene.hpp"

namespace cm_oracle {

namespace {

/// Messages of the connection manager have a fixed size: what follows the data is zero.
std::string without_padding(const void* data, std::size_t bytes) {
  if (data == nullptr) return "none";
  const auto* const first = static_cast<const char*>(data);
  while (bytes > 0 && first[bytes - 1] == 0) --bytes;
  return hex(data, bytes);
}

}  // namespace

side::side(scene& where, std::string name)
    : where_(where), name_(std::move(name)), channel_(rdma_create_event_channel()) {
  if (channel_ == nullptr) {
    throw std::system_error(errno, std::generic_category(), "rdma_create_event_channel");
  }
}

side::~side() {
  while (!ids_.empty()) {
    auto* const id = ids_.back();
    ids_.pop_back();
    if (id->event != nullptr) {
      rdma_ack_cm_event(id->event);
      id->event = nullptr;
    }
    if (id->qp != nullptr) rdma_destroy_qp(id);
    rdma_destroy_id(id);
  }
  rdma_destroy_event_channel(channel_);
}

rdma_cm_id* side::create(const std::string& label, rdma_port_space space) {
  rdma_cm_id* id = nullptr;
  errno = 0;
  const int result = rdma_create_id(channel_, &id, this, space);
  const int error = errno;
  if (result == 0) adopt(id, label);
  write_call("rdma_create_id", id, result, error, {{"space", name_of(space)}});
  return id;
}

rdma_cm_id* side::create_blocking(const std::string& label, rdma_port_space space) {
  rdma_cm_id* id = nullptr;
  errno = 0;
  const int result = rdma_create_id(nullptr, &id, this, space);
  const int error = errno;
  if (result == 0) adopt(id, label);
  write_call("rdma_create_id", id, result, error, {{"space", name_of(space)}, {"channel", "none"}});
  return id;
}

void side::adopt(rdma_cm_id* id, const std::string& label) {
  labels_[id] = label;
  ids_.push_back(id);
}

int side::destroy(rdma_cm_id* id) {
  const auto label = label_of(id);
  // The queue pair would outlive its identifier.
  if (id->qp != nullptr) rdma_destroy_qp(id);
  std::erase(ids_, id);
  labels_.erase(id);
  errno = 0;
  const int result = rdma_destroy_id(id);
  write_call("rdma_destroy_id", nullptr, result, errno, {{"id", label}});
  return result;
}

int side::bind(rdma_cm_id* id, socket_address to) {
  const int result = call("rdma_bind_addr", id, [&] { return rdma_bind_addr(id, to.native()); },
                          {{"to", where_.describe(to)}});
  if (result == 0) where_.know_port(ntohs(rdma_get_src_port(id)), label_of(id));
  return result;
}

int side::listen(rdma_cm_id* id, int backlog) {
  const int result =
      call("rdma_listen", id, [&] { return rdma_listen(id, backlog); }, {{"backlog", backlog}});
  if (result == 0) where_.know_port(ntohs(rdma_get_src_port(id)), label_of(id));
  return result;
}

int side::resolve_addr(rdma_cm_id* id, socket_address to, std::chrono::milliseconds timeout) {
  return call("rdma_resolve_addr", id,
              [&] {
                return rdma_resolve_addr(id, nullptr, to.native(),
                                         static_cast<int>(timeout.count()));
              },
              {{"to", where_.describe(to)}});
}

int side::resolve_addr(rdma_cm_id* id, socket_address from, socket_address to,
                       std::chrono::milliseconds timeout) {
  return call("rdma_resolve_addr", id,
              [&] {
                return rdma_resolve_addr(id, from.native(), to.native(),
                                         static_cast<int>(timeout.count()));
              },
              {{"from", where_.describe(from)}, {"to", where_.describe(to)}});
}

int side::resolve_route(rdma_cm_id* id, std::chrono::milliseconds timeout) {
  return call("rdma_resolve_route", id,
              [&] { return rdma_resolve_route(id, static_cast<int>(timeout.count())); });
}

int side::connect(rdma_cm_id* id, rdma_conn_param* parameters) {
  return call("rdma_connect", id, [&] { return rdma_connect(id, parameters); },
              {{"param", parameters == nullptr ? json(nullptr) : describe(*parameters)}});
}

int side::accept(rdma_cm_id* id, rdma_conn_param* parameters) {
  return call("rdma_accept", id, [&] { return rdma_accept(id, parameters); },
              {{"param", parameters == nullptr ? json(nullptr) : describe(*parameters)}});
}

int side::reject(rdma_cm_id* id, const std::string& private_data) {
  return call("rdma_reject", id,
              [&] {
                return rdma_reject(id, private_data.empty() ? nullptr : private_data.data(),
                                   static_cast<std::uint8_t>(private_data.size()));
              },
              {{"private_data_len", private_data.size()}});
}

int side::establish(rdma_cm_id* id) {
  return call("rdma_establish", id, [&] { return rdma_establish(id); });
}

int side::disconnect(rdma_cm_id* id) {
  return call("rdma_disconnect", id, [&] { return rdma_disconnect(id); });
}

int side::notify(rdma_cm_id* id, ibv_event_type event) {
  return call("rdma_notify", id, [&] { return rdma_notify(id, event); },
              {{"about", ibv_event_type_str(event)}});
}

int side::migrate(rdma_cm_id* id, rdma_event_channel* to) {
  const char* where = to == channel_ ? "own" : "other";
  if (to == nullptr) where = "none";
  return call("rdma_migrate_id", id, [&] { return rdma_migrate_id(id, to); }, {{"channel", where}});
}

int side::set_option(rdma_cm_id* id, int level, int name, const void* value, std::size_t bytes) {
  return call("rdma_set_option", id,
              [&] { return rdma_set_option(id, level, name, const_cast<void*>(value), bytes); },
              {{"level", level}, {"option", name}, {"value", hex(value, bytes)}});
}

int side::set_flag(rdma_cm_id* id, int option, int value) {
  return set_option(id, RDMA_OPTION_ID, option, &value, sizeof value);
}

int side::join(rdma_cm_id* id, socket_address group, void* context) {
  return call("rdma_join_multicast", id,
              [&] { return rdma_join_multicast(id, group.native(), context); },
              {{"group", where_.describe(group)}});
}

int side::leave(rdma_cm_id* id, socket_address group) {
  return call("rdma_leave_multicast", id, [&] { return rdma_leave_multicast(id, group.native()); },
              {{"group", where_.describe(group)}});
}

ibv_qp_init_attr side::small_queues(ibv_qp_type type) {
  ibv_qp_init_attr attributes{};
  attributes.cap = {.max_send_wr = 8,
                    .max_recv_wr = 8,
                    .max_send_sge = 1,
                    .max_recv_sge = 1,
                    .max_inline_data = 0};
  attributes.qp_type = type;
  attributes.sq_sig_all = 1;
  return attributes;
}

int side::create_qp(rdma_cm_id* id, ibv_pd* pd) {
  const bool datagrams = id->ps == RDMA_PS_UDP || id->ps == RDMA_PS_IPOIB;
  return create_qp(id, pd, small_queues(datagrams ? IBV_QPT_UD : IBV_QPT_RC));
}

int side::create_qp(rdma_cm_id* id, ibv_pd* pd, ibv_qp_init_attr attributes) {
  const int result =
      call("rdma_create_qp", id, [&] { return rdma_create_qp(id, pd, &attributes); });
  if (result == 0) where_.know_qp(id->qp->qp_num, name_);
  return result;
}

void side::destroy_qp(rdma_cm_id* id) {
  rdma_destroy_qp(id);
  write({{"call", "rdma_destroy_qp"},
         {"id", label_of(id)},
         {"qp", id->qp == nullptr ? "none" : "there"},
         {"send_cq", id->send_cq == nullptr ? "none" : "there"},
         {"pd", id->pd == nullptr ? "none" : "there"}});
}

void side::query_qp(rdma_cm_id* id) { query_qp(label_of(id), id->qp); }

void side::query_qp(const std::string& label, ibv_qp* qp) {
  // Some of them mean nothing to a datagram's queue pair, and some devices fill them nevertheless.
  constexpr int of_all = IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT;
  constexpr int of_connected = IBV_QP_ACCESS_FLAGS | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_TIMEOUT |
                               IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC |
                               IBV_QP_MIN_RNR_TIMER | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_DEST_QPN;
  if (qp == nullptr) {
    write({{"call", "ibv_query_qp"}, {"id", label}, {"qp", "none"}});
    return;
  }
  const int wanted = of_all | (qp->qp_type == IBV_QPT_UD ? IBV_QP_QKEY : of_connected);
  ibv_qp_attr attributes{};
  ibv_qp_init_attr created{};
  const int result = ibv_query_qp(qp, &attributes, wanted, &created);
  json step{{"call", "ibv_query_qp"}, {"id", label}, {"result", result}};
  if (result == 0) {
    // Before a queue pair has been given its attributes they are whatever the device likes.
    const bool connected = attributes.qp_state == IBV_QPS_RTR || attributes.qp_state == IBV_QPS_RTS;
    int known = connected ? wanted : IBV_QP_STATE;
    if (attributes.qp_state == IBV_QPS_INIT) {
      known = wanted & (of_all | IBV_QP_ACCESS_FLAGS | IBV_QP_QKEY);
    }
    step.update(describe(attributes, known));
  }
  write(step);
}

void side::init_qp_attr(rdma_cm_id* id, ibv_qp_state state) {
  ibv_qp_attr attributes{};
  attributes.qp_state = state;
  int mask = 0;
  errno = 0;
  const int result = rdma_init_qp_attr(id, &attributes, &mask);
  const int error = errno;
  json details{{"state", name_of(state)}};
  if (result == 0) {
    details["mask"] = names_of_qp_attributes(mask);
    details["attributes"] = describe(attributes, mask);
  }
  write_call("rdma_init_qp_attr", id, result, error, details);
}

void side::init_qp_attr_of_all_states(rdma_cm_id* id) {
  for (const auto state :
       {IBV_QPS_RESET, IBV_QPS_INIT, IBV_QPS_RTR, IBV_QPS_RTS, IBV_QPS_SQD, IBV_QPS_ERR}) {
    init_qp_attr(id, state);
  }
}

void side::look_at(rdma_cm_id* id) {
  json seen{{"look", "rdma_cm_id"},
            {"id", label_of(id)},
            {"local", where_.describe(socket_address(*rdma_get_local_addr(id)))},
            {"peer", where_.describe(socket_address(*rdma_get_peer_addr(id)))},
            {"src_port", where_.describe_port(ntohs(rdma_get_src_port(id)))},
            {"dst_port", where_.describe_port(ntohs(rdma_get_dst_port(id)))},
            {"verbs", id->verbs == nullptr ? "none" : "there"},
            {"pd", id->pd == nullptr ? "none" : "there"},
            {"qp", id->qp == nullptr ? "none" : "there"},
            {"port_num", id->port_num},
            {"space", name_of(id->ps)},
            {"qp_type", name_of_qp_type(id->qp_type)},
            {"num_paths", id->route.num_paths},
            {"sgid", where_.describe(id->route.addr.addr.ibaddr.sgid)},
            {"dgid", where_.describe(id->route.addr.addr.ibaddr.dgid)},
            {"pkey", ntohs(id->route.addr.addr.ibaddr.pkey)}};
  if (id->route.num_paths > 0) {
    const auto& path = *id->route.path_rec;
    seen["path"] = {{"sgid", where_.describe(path.sgid)},
                    {"dgid", where_.describe(path.dgid)},
                    {"hop_limit", path.hop_limit},
                    {"traffic_class", path.traffic_class},
                    {"reversible", path.reversible},
                    {"numb_path", path.numb_path},
                    {"pkey", ntohs(path.pkey)},
                    {"sl", path.sl},
                    {"mtu_selector", path.mtu_selector},
                    {"mtu", path.mtu},
                    {"rate_selector", path.rate_selector},
                    {"rate", path.rate},
                    {"packet_life_time_selector", path.packet_life_time_selector},
                    {"packet_life_time", path.packet_life_time}};
  }
  write(seen);
}

seen_event side::next(std::chrono::milliseconds wait) { return next_of(channel_, wait); }

seen_event side::next_of(rdma_event_channel* channel, std::chrono::milliseconds wait) {
  pollfd readable{.fd = channel->fd, .events = POLLIN, .revents = 0};
  if (poll(&readable, 1, static_cast<int>(wait.count())) == 0) {
    write({{"event", "none"}});
    return {};
  }
  rdma_cm_event* event = nullptr;
  if (const int result = rdma_get_cm_event(channel, &event); result != 0) {
    write_call("rdma_get_cm_event", nullptr, result, errno, json::object());
    return {};
  }
  write_event(*event);
  const seen_event seen{.type = event->event, .status = event->status, .id = event->id};
  rdma_ack_cm_event(event);
  return seen;
}

rdma_cm_id* side::next_request(const std::string& label) {
  const auto seen = next();
  if (seen.id == nullptr || seen.type != RDMA_CM_EVENT_CONNECT_REQUEST) return nullptr;
  adopt(seen.id, label);
  return seen.id;
}

void side::write_event(const rdma_cm_event& event) {
  json step{{"event", name_of(event.event)}, {"status", event.status}, {"id", label_of(event.id)}};
  if (event.listen_id != nullptr) step["listen_id"] = label_of(event.listen_id);
  const bool datagrams = event.id->ps == RDMA_PS_UDP || event.id->ps == RDMA_PS_IPOIB;
  auto parameters = datagrams ? describe(event.param.ud) : describe(event.param.conn);
  // Most events have none.
  const auto nothing = datagrams ? describe(rdma_ud_param{}) : describe(rdma_conn_param{});
  if (parameters == nothing) parameters = json::object();
  // A join hands back the caller's pointer in the place of private data.
  if (event.event == RDMA_CM_EVENT_MULTICAST_JOIN || event.event == RDMA_CM_EVENT_MULTICAST_ERROR) {
    parameters["private_data"] =
        event.param.ud.private_data == nullptr ? "none" : "what was given to join";
  }
  step.update(parameters);
  write(step);
}

void side::write_call(const char* function, rdma_cm_id* on, int result, int error,
                      const json& details) {
  json step{{"call", function}};
  if (on != nullptr) step["id"] = label_of(on);
  step.update(details);
  step["result"] = result;
  if (result != 0) step["errno"] = name_of_errno(error);
  write(step);
}

json side::label_of(rdma_cm_id* id) const {
  const auto found = labels_.find(id);
  return found == labels_.end() ? json("new") : json(found->second);
}

json side::describe(const rdma_conn_param& parameters) const {
  return {{"private_data", without_padding(parameters.private_data, parameters.private_data_len)},
          {"private_data_len", parameters.private_data_len},
          {"responder_resources", parameters.responder_resources},
          {"initiator_depth", parameters.initiator_depth},
          {"flow_control", parameters.flow_control},
          {"retry_count", parameters.retry_count},
          {"rnr_retry_count", parameters.rnr_retry_count},
          {"srq", parameters.srq},
          {"qp_num", where_.describe_qp(parameters.qp_num)}};
}

json side::describe(const rdma_ud_param& parameters) const {
  return {{"private_data", without_padding(parameters.private_data, parameters.private_data_len)},
          {"private_data_len", parameters.private_data_len},
          {"qp_num", parameters.qp_num == 0xffffff ? json("0xffffff")
                                                   : where_.describe_qp(parameters.qp_num)},
          {"qkey", parameters.qkey},
          {"ah_attr", where_.describe(parameters.ah_attr)}};
}

json side::describe(const ibv_qp_attr& attributes, int mask) const {
  json values = json::object();
  const auto add = [&](int bit, const char* name, const json& value) {
    if ((mask & bit) != 0) values[name] = value;
  };
  add(IBV_QP_STATE, "qp_state", name_of(attributes.qp_state));
  add(IBV_QP_ACCESS_FLAGS, "qp_access_flags", attributes.qp_access_flags);
  add(IBV_QP_PKEY_INDEX, "pkey_index", attributes.pkey_index);
  add(IBV_QP_PORT, "port_num", attributes.port_num);
  add(IBV_QP_QKEY, "qkey", attributes.qkey);
  add(IBV_QP_AV, "ah_attr", where_.describe(attributes.ah_attr));
  add(IBV_QP_PATH_MTU, "path_mtu", static_cast<int>(attributes.path_mtu));
  add(IBV_QP_TIMEOUT, "timeout", attributes.timeout);
  add(IBV_QP_RETRY_CNT, "retry_cnt", attributes.retry_cnt);
  add(IBV_QP_RNR_RETRY, "rnr_retry", attributes.rnr_retry);
  add(IBV_QP_MAX_QP_RD_ATOMIC, "max_rd_atomic", attributes.max_rd_atomic);
  add(IBV_QP_MAX_DEST_RD_ATOMIC, "max_dest_rd_atomic", attributes.max_dest_rd_atomic);
  add(IBV_QP_MIN_RNR_TIMER, "min_rnr_timer", attributes.min_rnr_timer);
  add(IBV_QP_DEST_QPN, "dest_qp_num", where_.describe_qp(attributes.dest_qp_num));
  add(IBV_QP_PATH_MIG_STATE, "path_mig_state", static_cast<int>(attributes.path_mig_state));
  return values;
}

}  // namespace cm_oracle
