// Identifiers without a channel: each call waits for its event. The two sides have a thread each.

#include <thread>

#include "conversation.hpp"
#include "scenario.hpp"

namespace cm_oracle {

namespace {

void write_kept_event(side& on, rdma_cm_id* id) {
  if (id->event == nullptr) {
    on.write({{"id->event", "none"}});
  } else {
    on.write_event(*id->event);
  }
}

rdma_addrinfo* find(side& on, scene& where, std::uint16_t port, int flags,
                    rdma_port_space space = RDMA_PS_TCP) {
  rdma_addrinfo hints{};
  hints.ai_flags = flags;
  hints.ai_port_space = space;
  rdma_addrinfo* found = nullptr;
  on.call("rdma_getaddrinfo", nullptr, [&] {
    return rdma_getaddrinfo(where.own().text().c_str(), std::to_string(port).c_str(), &hints,
                            &found);
  });
  return found;
}

rdma_cm_id* create_ep(side& on, const std::string& label, rdma_addrinfo* at,
                      ibv_qp_init_attr* queues, ibv_pd* pd = nullptr) {
  rdma_cm_id* id = nullptr;
  const int result =
      on.call("rdma_create_ep", nullptr, [&] { return rdma_create_ep(&id, at, pd, queues); });
  if (result != 0) return nullptr;
  on.adopt(id, label);
  return id;
}

rdma_cm_id* get_request(side& on, rdma_cm_id* listener) {
  rdma_cm_id* id = nullptr;
  const int result =
      on.call("rdma_get_request", listener, [&] { return rdma_get_request(listener, &id); });
  if (result != 0) return nullptr;
  on.adopt(id, "server");
  return id;
}

void destroy_ep(side& on, rdma_cm_id* id) {
  on.forget(id);
  rdma_destroy_ep(id);
  on.write({{"call", "rdma_destroy_ep"}});
}

void serve(scene& where, side& on, rdma_cm_id* listener, bool reject) {
  auto* const server = get_request(on, listener);
  if (server == nullptr) return;
  if (server->qp != nullptr) where.know_qp(server->qp->qp_num, on.name());
  write_kept_event(on, server);
  on.look_at(server);
  on.query_qp(server);
  if (reject) {
    on.reject(server, "no");
    destroy_ep(on, server);
    return;
  }
  auto said = parameters("welcome");
  on.accept(server, &said);
  write_kept_event(on, server);
  on.query_qp(server);
  on.disconnect(server);
  write_kept_event(on, server);
  on.query_qp(server);
  destroy_ep(on, server);
}

/// `rdma_disconnect` is called by both, as the examples of librdmacm do.
void meet(scene& where, bool reject) {
  auto& active = where.add("active");
  auto& passive = where.add("passive");
  auto* const here = find(passive, where, 0, RAI_PASSIVE);
  auto queues = side::small_queues(IBV_QPT_RC);
  auto* const listener = create_ep(passive, "listener", here, &queues);
  if (listener == nullptr) return;
  passive.look_at(listener);
  passive.listen(listener);
  rdma_freeaddrinfo(here);
  const std::jthread server([&] { serve(where, passive, listener, reject); });
  auto* const there = find(active, where, ntohs(rdma_get_src_port(listener)), 0);
  auto* const client = create_ep(active, "client", there, &queues);
  if (client == nullptr) return;
  rdma_freeaddrinfo(there);
  where.know_qp(client->qp->qp_num, active.name());
  write_kept_event(active, client);
  active.look_at(client);
  active.query_qp(client);
  auto said = parameters("hello");
  active.connect(client, &said);
  write_kept_event(active, client);
  active.query_qp(client);
  if (!reject) {
    active.disconnect(client);
    write_kept_event(active, client);
    active.query_qp(client);
  }
  destroy_ep(active, client);
}

void blocking_connection(scene& where) { meet(where, false); }
void blocking_rejection(scene& where) { meet(where, true); }

void blocking_connect_to_a_closed_port(scene& where) {
  auto& only = where.add("only");
  auto* const bound = only.create("bound");
  only.bind(bound, where.own());
  auto* const there = find(only, where, ntohs(rdma_get_src_port(bound)), 0);
  auto queues = side::small_queues(IBV_QPT_RC);
  auto* const client = create_ep(only, "client", there, &queues);
  rdma_freeaddrinfo(there);
  if (client == nullptr) return;
  only.connect(client, nullptr);
  write_kept_event(only, client);
  only.query_qp(client);
  only.connect(client, nullptr);
  write_kept_event(only, client);
}

void blocking_resolution(scene& where) {
  auto& only = where.add("only");
  auto* const id = only.create_blocking("id");
  only.resolve_addr(id, where.own(18515));
  write_kept_event(only, id);
  only.look_at(id);
  only.resolve_route(id);
  write_kept_event(only, id);
  auto* const lost = only.create_blocking("lost");
  only.resolve_addr(lost, where.routeless(18515));
  write_kept_event(only, lost);
  auto* const early = only.create_blocking("early");
  only.bind(early, where.own());
  only.resolve_route(early);
  write_kept_event(only, early);
}

void blocking_calls_on_other_ids(scene& where) {
  auto& only = where.add("only");
  auto* const id = only.create("id");
  only.bind(id, where.own());
  only.listen(id);
  rdma_cm_id* request = nullptr;
  only.call("rdma_get_request", id, [&] { return rdma_get_request(id, &request); });
}

void blocking_multicast(scene& where) {
  auto& only = where.add("only");
  auto* const id = only.create_blocking("id", RDMA_PS_UDP);
  only.bind(id, where.own());
  only.create_qp(id);
  const auto group = socket_address::parse("239.77.1.2");
  only.join(id, group);
  write_kept_event(only, id);
  // Leaving waits for the event to be acknowledged, which nothing but the next blocking call would
  // do.
  if (id->event != nullptr) {
    rdma_ack_cm_event(id->event);
    id->event = nullptr;
  }
  only.leave(id, group);
}

void endpoint_without_queue_pair(scene& where) {
  auto& only = where.add("only");
  auto* const there = find(only, where, 18515, 0);
  auto* const id = create_ep(only, "id", there, nullptr);
  rdma_freeaddrinfo(there);
  if (id == nullptr) return;
  only.look_at(id);
  only.create_qp(id);
  only.query_qp(id);
}

void endpoint_of_a_foreign_address(scene& where) {
  auto& only = where.add("only");
  auto address = where.routeless(18515);
  rdma_addrinfo there{};
  there.ai_family = AF_INET;
  there.ai_qp_type = IBV_QPT_RC;
  there.ai_port_space = RDMA_PS_TCP;
  there.ai_dst_addr = address.native();
  there.ai_dst_len = address.size();
  auto queues = side::small_queues(IBV_QPT_RC);
  create_ep(only, "active", &there, &queues);
  there.ai_flags = RAI_PASSIVE;
  there.ai_src_addr = address.native();
  there.ai_src_len = address.size();
  create_ep(only, "passive", &there, &queues);
}

void endpoint_of_datagrams(scene& where) {
  auto& only = where.add("only");
  auto* const there = find(only, where, 18515, 0, RDMA_PS_UDP);
  auto queues = side::small_queues(IBV_QPT_RC);
  auto* const id = create_ep(only, "id", there, &queues);
  rdma_freeaddrinfo(there);
  if (id == nullptr) return;
  // The address tells the type of the queue pair.
  only.write({{"qp_type", name_of_qp_type(static_cast<int>(queues.qp_type))}});
  only.look_at(id);
  only.query_qp(id);
}

/// Leaves the blocking world: the events of a connection are then found in the channel.
void endpoint_made_asynchronous(scene& where) {
  conversation talk(where);
  talk.listen();
  auto* const there = find(talk.active, where, talk.at.port(), 0);
  auto queues = side::small_queues(IBV_QPT_RC);
  talk.client = create_ep(talk.active, "client", there, &queues);
  rdma_freeaddrinfo(there);
  if (talk.client == nullptr) return;
  where.know_qp(talk.client->qp->qp_num, "active");
  talk.active.migrate(talk.client, talk.active.channel());
  if (talk.request()) talk.accept();
}

constexpr scenario scenarios[] = {
    {"blocking_connection", blocking_connection},
    {"blocking_rejection", blocking_rejection},
    {"blocking_connect_to_a_closed_port", blocking_connect_to_a_closed_port},
    {"blocking_resolution", blocking_resolution},
    {"blocking_calls_on_other_ids", blocking_calls_on_other_ids},
    {"blocking_multicast", blocking_multicast},
    {"endpoint_without_queue_pair", endpoint_without_queue_pair},
    {"endpoint_of_a_foreign_address", endpoint_of_a_foreign_address},
    {"endpoint_of_datagrams", endpoint_of_datagrams},
    {"endpoint_made_asynchronous", endpoint_made_asynchronous},
};

}  // namespace

std::span<const scenario> blocking() { return scenarios; }

}  // namespace cm_oracle
