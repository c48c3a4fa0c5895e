#include <cm/soft_cm.hpp>

#include <algorithm>
#include <cerrno>
#include <memory>
#include <new>

#include <cm/agent.hpp>
#include <cm/event_channel.hpp>
#include <cm/identifier.hpp>
#include <cm/local_device.hpp>
#include <engine/device_context.hpp>
#include <engine/fault_plan.hpp>
#include <netinet/in.h>
#include <verbs/soft_verbs.hpp>

namespace softverbs::cm {
namespace {

/// The convention of librdmacm.
int result(int failure) {
  if (failure == 0) return 0;
  errno = failure;
  return -1;
}

/// Calls `function` with the identifier, under the lock.
template <class Function>
int with(rdma_cm_id* id, Function function) {
  auto& who = identifier::of(id);
  if (!who.is_alive()) return result(ENODEV);
  const std::lock_guard lock(who.manager().mutex);
  return result(function(who));
}

/// A synchronous identifier waits for the outcome of what it has begun.
int complete(rdma_cm_id* id) {
  auto& who = identifier::of(id);
  if (!who.synchronous) return 0;
  if (id->event != nullptr) {
    ack_cm_event(id->event);
    id->event = nullptr;
  }
  if (get_cm_event(id->channel, &id->event) != 0) return -1;
  const int status = id->event->status;
  if (status == 0) return 0;
  if (id->event->event == RDMA_CM_EVENT_REJECTED) return result(ECONNREFUSED);
  return result(status < 0 ? -status : status);
}

template <class Function>
int begin_and_complete(rdma_cm_id* id, Function function) {
  return with(id, function) == 0 ? complete(id) : -1;
}

/// Not through the inline functions of libibverbs, which may ask for exported ones of it.
const verbs_context& extended_functions(const rdma_cm_id* id) {
  return engine::device_context::of(id->verbs).verbs;
}

ibv_qp_type type_of(rdma_port_space space) {
  return space == RDMA_PS_UDP || space == RDMA_PS_IPOIB ? IBV_QPT_UD : IBV_QPT_RC;
}

int make_id(rdma_event_channel* channel, rdma_cm_id** id, void* context, rdma_port_space space,
            ibv_qp_type type) {
  switch (space) {
    case RDMA_PS_TCP:
    case RDMA_PS_UDP:
    case RDMA_PS_IPOIB:
    case RDMA_PS_IB:
      break;
    default:
      return result(EINVAL);
  }
  std::unique_ptr<event_channel> own;
  auto* events = static_cast<event_channel*>(channel);
  if (events == nullptr) {
    own = std::make_unique<event_channel>();
    if (own->fd < 0) return result(EMFILE);
    events = own.get();
  }
  auto& manager = agent::of_process();
  const std::lock_guard lock(manager.mutex);
  auto made = std::make_unique<identifier>(manager, *events, context, space, type);
  made->synchronous = own != nullptr;
  made->own_events = std::move(own);
  *id = made.release();
  return 0;
}

/// Neither its peer nor its users hear of it any more, and what nobody has taken is thrown away.
void retire(identifier& who) {
  std::vector<cm_event*> removed;
  {
    const std::lock_guard lock(who.manager().mutex);
    who.retire();
    static_cast<void>(who.events().events.remove_if([&](cm_event* each) {
      if (each->owner != &who) return false;
      removed.push_back(each);
      return true;
    }));
  }
  for (auto* each : removed) {
    // A request that its listener's user never saw.
    if (each->id != &who) destroy_id(each->id);
    delete each;
  }
  who.account.acknowledged(static_cast<unsigned>(removed.size()));
}

/// A completion queue with its channel, for somebody who brought none.
int create_cq(rdma_cm_id* id, ibv_comp_channel*& channel, ibv_cq*& cq, std::uint32_t entries,
              ibv_cq*& wanted) {
  if (wanted != nullptr) return 0;
  channel = verbs::create_comp_channel(id->verbs);
  if (channel == nullptr) return errno;
  cq = verbs::create_cq(id->verbs, static_cast<int>(std::max(entries, 1U)), id, channel, 0);
  if (cq == nullptr) return errno;
  wanted = cq;
  return 0;
}

void destroy_cqs(rdma_cm_id* id) {
  // The completion queue of an XRC shared receive queue stays as long as that.
  if (id->qp_type == IBV_QPT_XRC_RECV && id->srq != nullptr) return;
  if (id->recv_cq != nullptr) verbs::destroy_cq(id->recv_cq);
  if (id->recv_cq_channel != nullptr) verbs::destroy_comp_channel(id->recv_cq_channel);
  if (id->send_cq != nullptr) verbs::destroy_cq(id->send_cq);
  if (id->send_cq_channel != nullptr) verbs::destroy_comp_channel(id->send_cq_channel);
  id->recv_cq = id->send_cq = nullptr;
  id->recv_cq_channel = id->send_cq_channel = nullptr;
}

/// INIT; a datagram queue pair goes on to RTS.
int initialise(const identifier& who, ibv_qp* qp) {
  for (const auto state : {IBV_QPS_INIT, IBV_QPS_RTR, IBV_QPS_RTS}) {
    if (state != IBV_QPS_INIT && !who.is_datagram()) break;
    ibv_qp_attr attributes{};
    attributes.qp_state = state;
    int mask = IBV_QP_STATE;
    if (state == IBV_QPS_INIT) {
      if (const int failure = who.describe(attributes, mask)) return failure;
    }
    if (state == IBV_QPS_RTS) mask |= IBV_QP_SQ_PSN;
    if (const int failure = verbs::modify_qp(qp, &attributes, mask)) return failure;
  }
  return 0;
}

bool terms_are_possible(const identifier& who, const rdma_conn_param* terms) {
  if (who.is_datagram() || who.device() == nullptr) return true;
  if (terms == nullptr) return who.qp != nullptr;
  const auto& limits = who.device()->attributes;
  return (terms->responder_resources == RDMA_MAX_RESP_RES ||
          terms->responder_resources <= limits.max_qp_rd_atom) &&
         (terms->initiator_depth == RDMA_MAX_INIT_DEPTH ||
          terms->initiator_depth <= limits.max_qp_init_rd_atom);
}

int reject_because(rdma_cm_id* id, const void* private_data, std::size_t bytes,
                   wire::reject_reason reason) {
  return with(id, [&](identifier& who) {
    return who.reject({static_cast<const std::byte*>(private_data), bytes}, reason);
  });
}

/// RDMA_MAX_… stand for what the device can.
rdma_conn_param bounded(const identifier& who, rdma_conn_param terms) {
  const auto& limits = who.device()->attributes;
  if (terms.responder_resources == RDMA_MAX_RESP_RES)
    terms.responder_resources = static_cast<std::uint8_t>(limits.max_qp_rd_atom);
  if (terms.initiator_depth == RDMA_MAX_INIT_DEPTH)
    terms.initiator_depth = static_cast<std::uint8_t>(limits.max_qp_init_rd_atom);
  return terms;
}

}  // namespace

// --- channels and events ---------------------------------------------------------------------

rdma_event_channel* create_event_channel() {
  if (const int wanted = engine::injected_failure("rdma_create_event_channel")) {
    errno = wanted;
    return nullptr;
  }
  auto made = std::make_unique<event_channel>();
  if (made->fd >= 0) return made.release();
  errno = EMFILE;
  return nullptr;
}

void destroy_event_channel(rdma_event_channel* channel) {
  auto* const events = static_cast<event_channel*>(channel);
  // Identifiers that were left over are at their end; their users may still destroy them.
  static auto* const nowhere = new event_channel;
  if (auto* const manager = agent::of_process_if_made()) {
    const std::lock_guard lock(manager->mutex);
    for (auto* each : manager->all()) {
      if (!each->reports_to(*events)) continue;
      each->retire();
      each->migrate_to(*nowhere);
    }
  }
  delete events;
}

int get_cm_event(rdma_event_channel* channel, rdma_cm_event** event) {
  if (event == nullptr) return result(EINVAL);
  auto& events = *static_cast<event_channel*>(channel);
  if (!events.is_alive()) return result(ENODEV);
  const auto taken = events.events.take();
  if (!taken) return -1;
  auto& news = **taken;
  auto& who = identifier::of(news.id);
  {
    const std::lock_guard lock(who.manager().mutex);
    identifier::prepare(news);
    if (news.event == RDMA_CM_EVENT_CONNECT_REQUEST && news.owner->synchronous) {
      who.synchronous = true;
      who.own_events = std::make_unique<event_channel>();
      who.migrate_to(*who.own_events);
    }
  }
  *event = &news;
  return 0;
}

int ack_cm_event(rdma_cm_event* event) {
  if (event == nullptr) return result(EINVAL);
  auto* const news = static_cast<cm_event*>(event);
  auto* const owner = news->owner;
  delete news;
  owner->account.acknowledged(1);
  return 0;
}

// --- identifiers -----------------------------------------------------------------------------

int create_id(rdma_event_channel* channel, rdma_cm_id** id, void* context, rdma_port_space space) {
  if (const int wanted = engine::injected_failure("rdma_create_id")) return result(wanted);
  return make_id(channel, id, context, space, type_of(space));
}

int destroy_id(rdma_cm_id* id) {
  auto& who = identifier::of(id);
  if (!who.is_alive()) return result(ENODEV);
  retire(who);
  if (id->event != nullptr) ack_cm_event(id->event);
  who.account.wait_until_balanced();
  const std::lock_guard lock(who.manager().mutex);
  delete &who;
  return 0;
}

int migrate_id(rdma_cm_id* id, rdma_event_channel* channel) {
  auto& who = identifier::of(id);
  if (!who.is_alive()) return result(ENODEV);
  if (who.synchronous && channel == nullptr) return result(EINVAL);
  std::unique_ptr<event_channel> own;
  auto* events = static_cast<event_channel*>(channel);
  if (events == nullptr) {
    own = std::make_unique<event_channel>();
    if (own->fd < 0) return result(EMFILE);
    events = own.get();
  }
  if (id->event != nullptr) {
    ack_cm_event(id->event);
    id->event = nullptr;
  }
  {
    const std::lock_guard lock(who.manager().mutex);
    who.migrate_to(*events);
    who.synchronous = own != nullptr;
    who.own_events.swap(own);
  }
  return 0;
}

int bind_addr(rdma_cm_id* id, sockaddr* address) {
  if (const int wanted = engine::injected_failure("rdma_bind_addr")) return result(wanted);
  return with(id, [&](identifier& who) { return who.bind(address); });
}

int resolve_addr(rdma_cm_id* id, sockaddr* source, sockaddr* destination) {
  if (const int wanted = engine::injected_failure("rdma_resolve_addr")) return result(wanted);
  return begin_and_complete(
      id, [&](identifier& who) { return who.resolve_address(source, destination); });
}

int resolve_route(rdma_cm_id* id) {
  if (const int wanted = engine::injected_failure("rdma_resolve_route")) return result(wanted);
  return begin_and_complete(id, [](identifier& who) { return who.resolve_route(); });
}

int set_option(rdma_cm_id* id, int level, int option, const void* value, std::size_t bytes) {
  return with(id, [&](identifier& who) {
    return who.set_option(level, option, {static_cast<const std::byte*>(value), bytes});
  });
}

__be16 src_port(rdma_cm_id* id) {
  // The port is in the same place in both families.
  return id->route.addr.src_sin.sin_port;
}

__be16 dst_port(rdma_cm_id* id) { return id->route.addr.dst_sin.sin_port; }

// --- queue pairs -----------------------------------------------------------------------------

int create_qp_ex(rdma_cm_id* id, ibv_qp_init_attr_ex* attributes) {
  if (const int wanted = engine::injected_failure("rdma_create_qp")) return result(wanted);
  auto& who = identifier::of(id);
  if (!who.is_alive()) return result(ENODEV);
  if (id->qp != nullptr || id->verbs == nullptr) return result(EINVAL);
  if ((attributes->comp_mask & IBV_QP_INIT_ATTR_PD) == 0) {
    attributes->comp_mask |= IBV_QP_INIT_ATTR_PD;
    attributes->pd = who.device()->pd;
  }
  const bool sends = attributes->qp_type != IBV_QPT_XRC_RECV;
  const bool receives = sends && attributes->qp_type != IBV_QPT_XRC_SEND;
  if (!sends && (attributes->comp_mask & IBV_QP_INIT_ATTR_XRCD) == 0) {
    attributes->comp_mask |= IBV_QP_INIT_ATTR_XRCD;
    attributes->xrcd = who.device()->xrc_domain;
  }
  if (attributes->pd == nullptr || attributes->pd->context != id->verbs) return result(EINVAL);
  if (id->srq != nullptr && attributes->srq == nullptr) attributes->srq = id->srq;
  int failure = 0;
  if (receives)
    failure = create_cq(id, id->recv_cq_channel, id->recv_cq, attributes->cap.max_recv_wr,
                        attributes->recv_cq);
  if (sends && failure == 0)
    failure = create_cq(id, id->send_cq_channel, id->send_cq, attributes->cap.max_send_wr,
                        attributes->send_cq);
  ibv_qp* qp = nullptr;
  if (failure == 0) {
    qp = extended_functions(id).create_qp_ex(id->verbs, attributes);
    failure = qp != nullptr ? 0 : errno;
  }
  if (failure == 0) {
    const std::lock_guard lock(who.manager().mutex);
    failure = initialise(who, qp);
    if (failure == 0) {
      id->pd = attributes->pd;
      id->qp = qp;
    }
  }
  if (failure == 0) return 0;
  if (qp != nullptr) verbs::destroy_qp(qp);
  destroy_cqs(id);
  return result(failure);
}

int create_qp(rdma_cm_id* id, ibv_pd* pd, ibv_qp_init_attr* attributes) {
  auto wanted = verbs::extended(*attributes);
  if (pd != nullptr) {
    wanted.comp_mask = IBV_QP_INIT_ATTR_PD;
    wanted.pd = pd;
  }
  if (create_qp_ex(id, &wanted) != 0) return -1;
  attributes->cap = wanted.cap;
  return 0;
}

void destroy_qp(rdma_cm_id* id) {
  auto& who = identifier::of(id);
  if (!who.is_alive()) return;
  ibv_qp* qp = nullptr;
  {
    const std::lock_guard lock(who.manager().mutex);
    qp = std::exchange(id->qp, nullptr);
  }
  if (qp != nullptr) verbs::destroy_qp(qp);
  destroy_cqs(id);
}

int init_qp_attr(rdma_cm_id* id, ibv_qp_attr* attributes, int* mask) {
  return with(id, [&](identifier& who) { return who.describe(*attributes, *mask); });
}

int create_srq_ex(rdma_cm_id* id, ibv_srq_init_attr_ex* attributes) {
  if (id->verbs == nullptr) return result(EINVAL);
  if ((attributes->comp_mask & IBV_SRQ_INIT_ATTR_PD) == 0) {
    attributes->comp_mask |= IBV_SRQ_INIT_ATTR_PD;
    attributes->pd = id->pd;
  }
  if ((attributes->comp_mask & IBV_SRQ_INIT_ATTR_TYPE) != 0 &&
      attributes->srq_type == IBV_SRQT_XRC) {
    if ((attributes->comp_mask & IBV_SRQ_INIT_ATTR_XRCD) == 0) {
      attributes->comp_mask |= IBV_SRQ_INIT_ATTR_XRCD;
      attributes->xrcd = identifier::of(id).device()->xrc_domain;
    }
    if ((attributes->comp_mask & IBV_SRQ_INIT_ATTR_CQ) == 0) attributes->cq = nullptr;
    attributes->comp_mask |= IBV_SRQ_INIT_ATTR_CQ;
    if (const int failure = create_cq(id, id->recv_cq_channel, id->recv_cq, attributes->attr.max_wr,
                                      attributes->cq))
      return result(failure);
  }
  auto* const made = extended_functions(id).create_srq_ex(id->verbs, attributes);
  if (made == nullptr) {
    const int failure = errno;
    if (id->qp == nullptr && id->srq == nullptr) destroy_cqs(id);
    return result(failure);
  }
  id->srq = made;  // one that was there before is the user's to destroy
  if (id->pd == nullptr) id->pd = attributes->pd;
  return 0;
}

int create_srq(rdma_cm_id* id, ibv_pd* pd, ibv_srq_init_attr* attributes) {
  ibv_srq_init_attr_ex wanted{};
  wanted.srq_context = attributes->srq_context;
  wanted.attr = attributes->attr;
  wanted.comp_mask = IBV_SRQ_INIT_ATTR_TYPE;
  wanted.srq_type = id->qp_type == IBV_QPT_XRC_RECV ? IBV_SRQT_XRC : IBV_SRQT_BASIC;
  if (pd != nullptr) {
    wanted.comp_mask |= IBV_SRQ_INIT_ATTR_PD;
    wanted.pd = pd;
  }
  if (create_srq_ex(id, &wanted) != 0) return -1;
  attributes->attr = wanted.attr;
  return 0;
}

void destroy_srq(rdma_cm_id* id) {
  if (id->srq != nullptr) verbs::destroy_srq(id->srq);
  id->srq = nullptr;
  if (id->qp == nullptr) destroy_cqs(id);
}

// --- connections -----------------------------------------------------------------------------

int listen(rdma_cm_id* id, int backlog) {
  if (const int wanted = engine::injected_failure("rdma_listen")) return result(wanted);
  return with(id, [&](identifier& who) { return who.listen(backlog); });
}

int connect(rdma_cm_id* id, rdma_conn_param* terms) {
  if (const int wanted = engine::injected_failure("rdma_connect")) return result(wanted);
  return begin_and_complete(id, [&](identifier& who) {
    if (!terms_are_possible(who, terms)) return EINVAL;
    if (terms == nullptr || who.device() == nullptr) return who.connect(terms);
    const auto wanted = bounded(who, *terms);
    return who.connect(&wanted);
  });
}

int establish(rdma_cm_id* id) {
  return with(id, [](identifier& who) { return who.qp != nullptr ? EINVAL : who.establish(); });
}

int get_request(rdma_cm_id* listener, rdma_cm_id** id) {
  auto& who = identifier::of(listener);
  if (!who.synchronous) return result(EINVAL);
  if (listener->event != nullptr) {
    ack_cm_event(listener->event);
    listener->event = nullptr;
  }
  rdma_cm_event* event = nullptr;
  if (get_cm_event(listener->channel, &event) != 0) return -1;
  if (event->event != RDMA_CM_EVENT_CONNECT_REQUEST) {
    listener->event = event;
    return result(EINVAL);
  }
  if (who.qp_wish != nullptr) {
    auto attributes = *who.qp_wish;
    if (create_qp(event->id, who.pd_wish, &attributes) != 0) {
      listener->event = event;
      return -1;
    }
  }
  *id = event->id;
  (*id)->event = event;
  return 0;
}

int accept(rdma_cm_id* id, rdma_conn_param* terms) {
  if (const int wanted = engine::injected_failure("rdma_accept")) return result(wanted);
  const auto begin = [&](identifier& who) {
    if (!terms_are_possible(who, terms)) return EINVAL;
    if (terms == nullptr || who.device() == nullptr) return who.accept(terms);
    auto wanted = *terms;
    const auto& limits = who.device()->attributes;
    // RDMA_MAX_… stand for what the peer asked for, as far as the device can.
    if (wanted.responder_resources == RDMA_MAX_RESP_RES)
      wanted.responder_resources = std::min(who.requested_responder_resources,
                                            static_cast<std::uint8_t>(limits.max_qp_rd_atom));
    if (wanted.initiator_depth == RDMA_MAX_INIT_DEPTH)
      wanted.initiator_depth = std::min(who.requested_initiator_depth,
                                        static_cast<std::uint8_t>(limits.max_qp_init_rd_atom));
    return who.accept(&wanted);
  };
  if (with(id, begin) != 0) return -1;
  return identifier::of(id).is_datagram() ? 0 : complete(id);
}

int reject(rdma_cm_id* id, const void* private_data, std::uint8_t bytes) {
  return reject_because(id, private_data, bytes, wire::reject_reason::consumer);
}

int reject_ece(rdma_cm_id* id, const void* private_data, std::uint8_t bytes) {
  return reject_because(id, private_data, bytes, wire::reject_reason::vendor_options);
}

int set_local_ece(rdma_cm_id* id, ibv_ece* ece) {
  if (ece == nullptr || ece->vendor_id == 0 || ece->comp_mask != 0) return result(EINVAL);
  return with(id, [&](identifier& who) {
    who.local_ece = *ece;
    return 0;
  });
}

int get_remote_ece(rdma_cm_id* id, ibv_ece* ece) {
  return with(id, [&](identifier& who) {
    *ece = who.remote_ece;
    return 0;
  });
}

int notify(rdma_cm_id* id, ibv_event_type event) {
  return with(id, [&](identifier& who) {
    if (event == IBV_EVENT_PATH_MIG) return 0;  // paths do not migrate here
    return event == IBV_EVENT_COMM_EST ? who.data_has_come() : EINVAL;
  });
}

int disconnect(rdma_cm_id* id) {
  if (const int wanted = engine::injected_failure("rdma_disconnect")) return result(wanted);
  return begin_and_complete(id, [](identifier& who) { return who.disconnect(); });
}

int join_multicast(rdma_cm_id* id, sockaddr* address, void* context) {
  if (const int wanted = engine::injected_failure("rdma_join_multicast")) return result(wanted);
  return begin_and_complete(id, [&](identifier& who) { return who.join(address, context); });
}

int leave_multicast(rdma_cm_id* id, sockaddr* address) {
  return with(id, [&](identifier& who) { return who.leave(address); });
}

// --- endpoints and devices -------------------------------------------------------------------

int create_ep(rdma_cm_id** id, rdma_addrinfo* info, ibv_pd* pd, ibv_qp_init_attr* attributes) {
  rdma_cm_id* made = nullptr;
  if (make_id(nullptr, &made, nullptr, static_cast<rdma_port_space>(info->ai_port_space),
              static_cast<ibv_qp_type>(info->ai_qp_type)) != 0)
    return -1;
  auto& who = identifier::of(made);
  int failed = 0;
  if ((info->ai_flags & RAI_PASSIVE) != 0) {
    failed = bind_addr(made, info->ai_src_addr);
    if (failed == 0 && attributes != nullptr) {
      who.qp_wish = std::make_unique<ibv_qp_init_attr>(*attributes);
      who.qp_wish->qp_type = static_cast<ibv_qp_type>(info->ai_qp_type);
      who.pd_wish = pd;
    }
  } else {
    failed = resolve_addr(made, info->ai_src_addr, info->ai_dst_addr);
    if (failed == 0) failed = resolve_route(made);
    if (failed == 0 && attributes != nullptr) {
      attributes->qp_type = static_cast<ibv_qp_type>(info->ai_qp_type);
      failed = create_qp(made, pd, attributes);
    }
  }
  if (failed == 0) {
    *id = made;
    return 0;
  }
  const int failure = errno;
  destroy_ep(made);
  return result(failure);
}

void destroy_ep(rdma_cm_id* id) {
  if (id->qp != nullptr) destroy_qp(id);
  if (id->srq != nullptr) destroy_srq(id);
  static_cast<void>(destroy_id(id));
}

ibv_context** get_devices(int* count) {
  const auto devices = local_devices();
  if (devices.empty()) return nullptr;
  auto** const list = new (std::nothrow) ibv_context*[devices.size() + 1];
  if (list == nullptr) return nullptr;
  std::ranges::transform(devices, list, [](const local_device* each) { return each->verbs; });
  list[devices.size()] = nullptr;
  if (count != nullptr) *count = static_cast<int>(devices.size());
  return list;
}

void free_devices(ibv_context** list) { delete[] list; }

}  // namespace softverbs::cm
