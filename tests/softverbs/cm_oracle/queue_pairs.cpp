#include <rdma/rdma_verbs.h>

#include "conversation.hpp"
#include "scenario.hpp"

namespace cm_oracle {

namespace {

rdma_cm_id* bound(scene& where, side& on, rdma_port_space space = RDMA_PS_TCP) {
  auto* const id = on.create("id", space);
  on.bind(id, where.own());
  return id;
}

void create_qp_of_an_unbound_id(scene& where) {
  auto& only = where.add("only");
  auto* const other = bound(where, only);
  auto* const unbound = only.create("unbound");
  // Without a protection domain librdmacm does not survive it: it has no device to ask.
  only.create_qp(unbound, other->pd);
}

void create_qp_of_a_bound_id(scene& where) {
  auto& only = where.add("only");
  auto* const id = bound(where, only);
  only.create_qp(id);
  only.look_at(id);
  only.query_qp(id);
  only.write({{"send_cq", id->send_cq == nullptr ? "none" : "there"},
              {"recv_cq", id->recv_cq == nullptr ? "none" : "there"},
              {"send_cq_channel", id->send_cq_channel == nullptr ? "none" : "there"},
              {"one completion queue", id->send_cq == id->recv_cq}});
  only.create_qp(id);
  only.destroy_qp(id);
  only.create_qp(id);
}

void create_qp_with_own_pd_and_cq(scene& where) {
  auto& only = where.add("only");
  auto* const id = bound(where, only);
  auto* const pd = ibv_alloc_pd(id->verbs);
  auto* const cq = ibv_create_cq(id->verbs, 16, nullptr, nullptr, 0);
  auto wanted = side::small_queues(IBV_QPT_RC);
  wanted.send_cq = wanted.recv_cq = cq;
  only.create_qp(id, pd, wanted);
  only.write({{"id->pd", id->pd == pd ? "given" : "another"},
              {"id->send_cq", id->send_cq == nullptr ? "none" : "there"}});
  only.query_qp(id);
  only.destroy_qp(id);
  only.write({{"id->pd", id->pd == pd ? "given" : "another"}});
  ibv_destroy_cq(cq);
  only.write({{"call", "ibv_dealloc_pd"}, {"result", ibv_dealloc_pd(pd)}});
}

void create_qp_of_other_types(scene& where) {
  auto& only = where.add("only");
  auto* const stream = bound(where, only);
  only.create_qp(stream, nullptr, side::small_queues(IBV_QPT_UD));
  if (stream->qp != nullptr) only.query_qp(stream);
  auto* const unreliable = bound(where, only);
  only.create_qp(unreliable, nullptr, side::small_queues(IBV_QPT_UC));
  if (unreliable->qp != nullptr) only.query_qp(unreliable);
  auto* const datagram = bound(where, only, RDMA_PS_UDP);
  only.create_qp(datagram, nullptr, side::small_queues(IBV_QPT_RC));
  if (datagram->qp != nullptr) only.query_qp(datagram);
}

void create_qp_too_large(scene& where) {
  auto& only = where.add("only");
  auto* const id = bound(where, only);
  auto wanted = side::small_queues(IBV_QPT_RC);
  wanted.cap.max_send_sge = 1U << 20U;
  only.create_qp(id, nullptr, wanted);
  only.write({{"send_cq", id->send_cq == nullptr ? "none" : "there"},
              {"qp", id->qp == nullptr ? "none" : "there"}});
}

void create_qp_of_datagrams(scene& where) {
  auto& only = where.add("only");
  auto* const id = bound(where, only, RDMA_PS_UDP);
  only.init_qp_attr_of_all_states(id);
  only.create_qp(id);
  only.query_qp(id);
  only.look_at(id);
}

void create_qp_before_route(scene& where) {
  auto& only = where.add("only");
  auto* const id = only.create("id");
  only.resolve_addr(id, where.own(18515));
  only.next();
  only.create_qp(id);
  only.query_qp(id);
}

void create_srq(scene& where) {
  auto& only = where.add("only");
  auto* const id = bound(where, only);
  ibv_srq_init_attr wanted{};
  wanted.attr.max_wr = 8;
  wanted.attr.max_sge = 1;
  only.call("rdma_create_srq", id, [&] { return rdma_create_srq(id, nullptr, &wanted); });
  auto* const forgotten = id->srq;
  only.call("rdma_create_srq", id, [&] { return rdma_create_srq(id, nullptr, &wanted); });
  if (forgotten != nullptr && forgotten != id->srq) ibv_destroy_srq(forgotten);
  only.create_qp(id);
  only.write({{"srq", id->srq == nullptr ? "none" : "there"},
              {"qp->srq", id->qp != nullptr && id->qp->srq == id->srq ? "the same" : "another"}});
  if (id->qp != nullptr) only.destroy_qp(id);
  rdma_destroy_srq(id);
  only.write({{"srq", id->srq == nullptr ? "none" : "there"}});
}

void connect_with_srq(scene& where) {
  conversation talk(where);
  talk.listen();
  talk.client = talk.active.create("client");
  talk.active.resolve_addr(talk.client, talk.at);
  talk.active.next();
  talk.active.resolve_route(talk.client);
  talk.active.next();
  ibv_srq_init_attr wanted{};
  wanted.attr.max_wr = 8;
  wanted.attr.max_sge = 1;
  talk.active.call("rdma_create_srq", talk.client,
                   [&] { return rdma_create_srq(talk.client, nullptr, &wanted); });
  talk.active.create_qp(talk.client);
  talk.request();
  if (talk.server != nullptr) talk.accept();
  // The last step, which is not recorded: the identifier does not own it.
  rdma_destroy_qp(talk.client);
  rdma_destroy_srq(talk.client);
}

constexpr scenario scenarios[] = {
    {"create_qp_of_an_unbound_id", create_qp_of_an_unbound_id},
    {"create_qp_of_a_bound_id", create_qp_of_a_bound_id},
    {"create_qp_with_own_pd_and_cq", create_qp_with_own_pd_and_cq},
    {"create_qp_of_other_types", create_qp_of_other_types},
    {"create_qp_too_large", create_qp_too_large},
    {"create_qp_of_datagrams", create_qp_of_datagrams},
    {"create_qp_before_route", create_qp_before_route},
    {"create_srq", create_srq},
    {"connect_with_srq", connect_with_srq},
};

}  // namespace

std::span<const scenario> queue_pairs() { return scenarios; }

}  // namespace cm_oracle
