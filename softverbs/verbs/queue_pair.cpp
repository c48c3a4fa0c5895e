// Creating, changing and destroying queue pairs, shared receive queues, XRC domains and address
// handles.
#include <engine/queue_pair.hpp>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>

#include <base/settings.hpp>
#include <base/undo.hpp>
#include <engine/address_handle.hpp>
#include <engine/shared_receive_queue.hpp>
#include <net/netdev.hpp>
#include <sys/stat.h>
#include <verbs/objects.hpp>
#include <verbs/soft_verbs.hpp>

namespace softverbs::verbs {
namespace {

using engine::completion_queue;
using engine::queue_pair;
using engine::shared_receive_queue;
using engine::xrc_domain;

protection_domain& of(ibv_pd* pd) { return *static_cast<protection_domain*>(pd); }

net::address group_address(const ibv_gid& gid) {
  net::address address;
  std::memcpy(address.raw.data(), gid.raw, sizeof gid.raw);
  return address;
}

int check_capacities(const ibv_qp_cap& wanted) {
  const auto& limits = settings::get();
  const bool fits =
      wanted.max_send_wr <= limits.max_qp_wr && wanted.max_recv_wr <= limits.max_qp_wr &&
      wanted.max_send_sge <= limits.max_sge && wanted.max_recv_sge <= limits.max_sge &&
      wanted.max_inline_data <= limits.max_inline;
  return fits ? 0 : EINVAL;
}

int post_send(ibv_qp* qp, ibv_send_wr* list, ibv_send_wr** bad) {
  auto& pair = queue_pair::of(qp);
  if (const int refusal = pair.context.refuses("ibv_post_send")) {
    *bad = list;
    return refusal;
  }
  return pair.post_send(list, bad);
}

int post_recv(ibv_qp* qp, ibv_recv_wr* list, ibv_recv_wr** bad) {
  auto& pair = queue_pair::of(qp);
  if (const int refusal = pair.context.refuses("ibv_post_recv")) {
    *bad = list;
    return refusal;
  }
  return pair.post_receive(list, bad);
}

ibv_qp* make_qp(ibv_context* context, ibv_qp_init_attr_ex& wanted) {
  auto& owner = context_of(context);
  if (const int refusal = owner.refuses("ibv_create_qp")) return failed<ibv_qp>(refusal);
  const auto type = wanted.qp_type;
  const bool sends = type != IBV_QPT_XRC_RECV;
  const bool receives = type != IBV_QPT_XRC_RECV && type != IBV_QPT_XRC_SEND;
  switch (type) {
    case IBV_QPT_RC:
    case IBV_QPT_UC:
    case IBV_QPT_UD:
    case IBV_QPT_XRC_SEND:
      if (wanted.pd == nullptr || wanted.pd->context != context) return failed<ibv_qp>(EINVAL);
      break;
    case IBV_QPT_XRC_RECV:
      if ((wanted.comp_mask & IBV_QP_INIT_ATTR_XRCD) == 0 || wanted.xrcd == nullptr)
        return failed<ibv_qp>(EINVAL);
      break;
    default:
      return failed<ibv_qp>(EOPNOTSUPP);
  }
  if (sends && wanted.send_cq == nullptr) return failed<ibv_qp>(EINVAL);
  if (receives && wanted.recv_cq == nullptr) return failed<ibv_qp>(EINVAL);
  queue_pair::parts made{.pd = wanted.pd,
                         .type = type,
                         .signal_all = wanted.sq_sig_all != 0,
                         .user_context = wanted.qp_context};
  made.capacities = wanted.cap;
  if (!receives || wanted.srq != nullptr)
    made.capacities.max_recv_wr = made.capacities.max_recv_sge = 0;
  if (!sends)
    made.capacities.max_send_wr = made.capacities.max_send_sge = made.capacities.max_inline_data =
        0;
  if (const int failure = check_capacities(made.capacities)) return failed<ibv_qp>(failure);
  // As other devices: what would lie in the place of the elements costs nothing, and programs that
  // never asked for it use it.
  auto& inline_bytes = made.capacities.max_inline_data;
  inline_bytes = std::max<std::uint32_t>(
      inline_bytes, std::min<std::uint32_t>(made.capacities.max_send_sge * sizeof(ibv_sge),
                                            settings::get().max_inline));
  if (sends) made.send_cq = &completion_queue::of(wanted.send_cq);
  if (receives) made.receive_cq = &completion_queue::of(wanted.recv_cq);
  if (receives && wanted.srq != nullptr) made.srq = &shared_receive_queue::of(wanted.srq);
  if (type == IBV_QPT_XRC_RECV) {
    made.domain = static_cast<xrc_domain*>(wanted.xrcd);
    made.pd = nullptr;
  }
  if (!owner.place->queue_pairs.add(settings::get().max_qp)) return failed<ibv_qp>(ENOMEM);
  undo counted([&] { owner.place->queue_pairs.remove(); });
  const auto where = owner.place->ports().allocate_endpoint();
  if (where == nullptr) return nullptr;
  undo allocated([&] { owner.place->ports().release_endpoint(where->qpn); });
  auto* const qp = new queue_pair(owner, where, made);
  allocated.keep();
  counted.keep();
  {
    const std::lock_guard lock(where->mutex);
    where->owner = qp;
  }
  if (made.pd != nullptr) ++of(made.pd).users;
  if (made.send_cq != nullptr) ++made.send_cq->users;
  if (made.receive_cq != nullptr) ++made.receive_cq->users;
  if (made.srq != nullptr) ++made.srq->users;
  if (made.domain != nullptr) ++made.domain->users;
  ++owner.objects;
  wanted.cap = made.capacities;
  return &qp->qp_base;
}

ibv_qp* create_qp_ex(ibv_context* context, ibv_qp_init_attr_ex* wanted) {
  constexpr std::uint32_t known = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_XRCD |
                                  IBV_QP_INIT_ATTR_CREATE_FLAGS | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
  if ((wanted->comp_mask & ~known) != 0) return failed<ibv_qp>(EOPNOTSUPP);
  if ((wanted->comp_mask & IBV_QP_INIT_ATTR_CREATE_FLAGS) != 0 && wanted->create_flags != 0)
    return failed<ibv_qp>(EOPNOTSUPP);
  auto copy = *wanted;
  if ((wanted->comp_mask & IBV_QP_INIT_ATTR_PD) == 0) copy.pd = nullptr;
  const bool extended = (wanted->comp_mask & IBV_QP_INIT_ATTR_SEND_OPS_FLAGS) != 0;
  if (extended) {
    constexpr std::uint64_t datagrams = IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_SEND_WITH_IMM;
    constexpr std::uint64_t unreliable = datagrams | IBV_QP_EX_WITH_RDMA_WRITE |
                                         IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM |
                                         IBV_QP_EX_WITH_BIND_MW;
    constexpr std::uint64_t reliable = unreliable | IBV_QP_EX_WITH_RDMA_READ |
                                       IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP |
                                       IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD |
                                       IBV_QP_EX_WITH_LOCAL_INV | IBV_QP_EX_WITH_SEND_WITH_INV;
    auto possible = reliable;
    if (wanted->qp_type == IBV_QPT_UC) possible = unreliable;
    if (wanted->qp_type == IBV_QPT_UD) possible = datagrams;
    if ((wanted->send_ops_flags & ~possible) != 0) return failed<ibv_qp>(EOPNOTSUPP);
  }
  auto* const qp = make_qp(context, copy);
  if (qp == nullptr) return nullptr;
  wanted->cap = copy.cap;
  if (extended) set_work_request_functions(queue_pair::of(qp));
  return qp;
}

ibv_srq* make_srq(ibv_context* context, ibv_srq_init_attr_ex& wanted) {
  auto& owner = context_of(context);
  if (const int refusal = owner.refuses("ibv_create_srq")) return failed<ibv_srq>(refusal);
  const bool xrc =
      (wanted.comp_mask & IBV_SRQ_INIT_ATTR_TYPE) != 0 && wanted.srq_type == IBV_SRQT_XRC;
  if ((wanted.comp_mask & IBV_SRQ_INIT_ATTR_TYPE) != 0 && wanted.srq_type != IBV_SRQT_BASIC && !xrc)
    return failed<ibv_srq>(EOPNOTSUPP);
  if (wanted.pd == nullptr || wanted.pd->context != context) return failed<ibv_srq>(EINVAL);
  if (xrc && (wanted.xrcd == nullptr || wanted.cq == nullptr)) return failed<ibv_srq>(EINVAL);
  const auto& limits = settings::get();
  if (wanted.attr.max_wr == 0 || wanted.attr.max_wr > limits.max_qp_wr ||
      wanted.attr.max_sge > limits.max_sge)
    return failed<ibv_srq>(EINVAL);
  auto attributes = wanted.attr;
  attributes.srq_limit = 0;  // ignored at creation
  auto srq =
      std::make_unique<shared_receive_queue>(owner, wanted.pd, attributes, wanted.srq_context);
  srq->context = context;
  if (xrc) {
    srq->domain = static_cast<xrc_domain*>(wanted.xrcd);
    srq->cq = &completion_queue::of(wanted.cq);
    engine::srq_directory::of_process().add(*srq);
    ++srq->domain->users;
    ++srq->cq->users;
  }
  ++of(wanted.pd).users;
  ++owner.objects;
  return srq.release();
}

ibv_srq* create_srq_ex(ibv_context* context, ibv_srq_init_attr_ex* wanted) {
  return make_srq(context, *wanted);
}

int post_srq_recv(ibv_srq* srq, ibv_recv_wr* list, ibv_recv_wr** bad) {
  auto& queue = shared_receive_queue::of(srq);
  const int refusal = queue.owner.refuses("ibv_post_srq_recv");
  for (auto* request = list; request != nullptr; request = request->next) {
    const int failure = refusal != 0 ? refusal : queue.post(*request);
    if (failure == 0) continue;
    *bad = request;
    return failure;
  }
  return 0;
}

int get_srq_num(ibv_srq* srq, std::uint32_t* number) {
  const auto& queue = shared_receive_queue::of(srq);
  if (queue.domain == nullptr) return EINVAL;
  *number = queue.number;
  return 0;
}

ibv_xrcd* open_xrcd(ibv_context* context, ibv_xrcd_init_attr* wanted) {
  auto& owner = context_of(context);
  if (const int refusal = owner.refuses("ibv_open_xrcd")) return failed<ibv_xrcd>(refusal);
  static std::atomic<std::uint64_t> unnamed = 0;
  auto domain = std::make_unique<xrc_domain>();
  if ((wanted->comp_mask & IBV_XRCD_INIT_ATTR_FD) != 0 && wanted->fd != -1) {
    struct stat file{};
    if (::fstat(wanted->fd, &file) != 0) return nullptr;
    domain->who = {.device = file.st_dev, .file = file.st_ino};
  } else {
    domain->who = {.device = ~std::uint64_t{0}, .file = ++unnamed};
  }
  domain->context = context;
  ++owner.objects;
  return domain.release();
}

int close_xrcd(ibv_xrcd* xrcd) {
  auto& domain = *static_cast<xrc_domain*>(xrcd);
  auto& owner = context_of(xrcd->context);
  if (!owner.is_alive()) return belongs_to_parent;
  if (domain.users != 0) return EBUSY;
  delete &domain;
  --owner.objects;
  return 0;
}

}  // namespace

void set_queue_pair_functions(verbs_context& verbs) {
  verbs.context.ops.post_send = c_function<post_send>;
  verbs.context.ops.post_recv = c_function<post_recv>;
  verbs.create_qp_ex = c_function<create_qp_ex>;
}

void set_shared_receive_functions(verbs_context& verbs) {
  verbs.context.ops.post_srq_recv = c_function<post_srq_recv>;
  verbs.create_srq_ex = c_function<create_srq_ex>;
  verbs.get_srq_num = c_function<get_srq_num>;
  verbs.open_xrcd = c_function<open_xrcd>;
  verbs.close_xrcd = c_function<close_xrcd>;
}

ibv_qp_init_attr_ex extended(const ibv_qp_init_attr& attributes) {
  ibv_qp_init_attr_ex wanted{};
  wanted.qp_context = attributes.qp_context;
  wanted.send_cq = attributes.send_cq;
  wanted.recv_cq = attributes.recv_cq;
  wanted.srq = attributes.srq;
  wanted.cap = attributes.cap;
  wanted.qp_type = attributes.qp_type;
  wanted.sq_sig_all = attributes.sq_sig_all;
  return wanted;
}

ibv_qp* create_qp(ibv_pd* pd, ibv_qp_init_attr* attributes) {
  auto wanted = extended(*attributes);
  wanted.comp_mask = IBV_QP_INIT_ATTR_PD;
  wanted.pd = pd;
  auto* const qp = make_qp(pd->context, wanted);
  if (qp != nullptr) attributes->cap = wanted.cap;
  return qp;
}

int modify_qp(ibv_qp* qp, ibv_qp_attr* attributes, int mask) {
  auto& pair = queue_pair::of(qp);
  if (const int refusal = pair.context.refuses("ibv_modify_qp")) return refusal;
  return pair.modify(*attributes, mask);
}

int query_qp(ibv_qp* qp, ibv_qp_attr* attributes, int /*mask*/, ibv_qp_init_attr* init) {
  auto& pair = queue_pair::of(qp);
  if (!pair.context.is_alive()) return belongs_to_parent;
  pair.query(*attributes, *init);
  return 0;
}

int destroy_qp(ibv_qp* qp) {
  auto& pair = queue_pair::of(qp);
  auto& owner = pair.context;
  if (!owner.is_alive()) return belongs_to_parent;
  if (pair.groups != 0) return EBUSY;
  {
    const std::lock_guard lock(pair.where->mutex);
    pair.where->owner = nullptr;  // from here on nothing reaches it
    pair.where->closed = true;
  }
  owner.place->ports().release_endpoint(pair.where->qpn);
  owner.memory.forget_queue_pair(pair.where->qpn);
  pair.asynchronous_events.acknowledged(owner.events.remove_if([&](const ibv_async_event& event) {
    return event.element.qp == qp && event.event_type != IBV_EVENT_CQ_ERR;
  }));
  pair.asynchronous_events.wait_until_balanced();
  const auto& made = pair.made;
  if (made.pd != nullptr) --of(made.pd).users;
  if (made.send_cq != nullptr) --made.send_cq->users;
  if (made.receive_cq != nullptr) --made.receive_cq->users;
  if (made.srq != nullptr) --made.srq->users;
  if (made.domain != nullptr) --made.domain->users;
  delete &pair;
  owner.place->queue_pairs.remove();
  --owner.objects;
  return 0;
}

ibv_qp_ex* to_qp_ex(ibv_qp* qp) {
  auto& pair = queue_pair::of(qp);
  return pair.wr_start != nullptr ? &pair : nullptr;
}

ibv_srq* create_srq(ibv_pd* pd, ibv_srq_init_attr* attributes) {
  ibv_srq_init_attr_ex wanted{};
  wanted.srq_context = attributes->srq_context;
  wanted.attr = attributes->attr;
  wanted.comp_mask = IBV_SRQ_INIT_ATTR_PD;
  wanted.pd = pd;
  return make_srq(pd->context, wanted);
}

int modify_srq(ibv_srq* srq, ibv_srq_attr* attributes, int mask) {
  auto& queue = shared_receive_queue::of(srq);
  return queue.owner.is_alive() ? queue.modify(*attributes, mask) : belongs_to_parent;
}

int query_srq(ibv_srq* srq, ibv_srq_attr* attributes) {
  auto& queue = shared_receive_queue::of(srq);
  if (!queue.owner.is_alive()) return belongs_to_parent;
  *attributes = queue.query();
  return 0;
}

int destroy_srq(ibv_srq* srq) {
  auto& queue = shared_receive_queue::of(srq);
  auto& owner = queue.owner;
  if (!owner.is_alive()) return belongs_to_parent;
  if (queue.users != 0) return EBUSY;
  if (queue.domain != nullptr) {
    engine::srq_directory::of_process().remove(queue);
    --queue.domain->users;
    --queue.cq->users;
  }
  queue.asynchronous_events.acknowledged(owner.events.remove_if([&](const ibv_async_event& event) {
    return event.element.srq == srq && (event.event_type == IBV_EVENT_SRQ_LIMIT_REACHED ||
                                        event.event_type == IBV_EVENT_SRQ_ERR);
  }));
  queue.asynchronous_events.wait_until_balanced();
  --of(srq->pd).users;
  delete &queue;
  --owner.objects;
  return 0;
}

ibv_ah* create_ah(ibv_pd* pd, ibv_ah_attr* attributes) {
  auto& owner = context_of(pd->context);
  if (const int refusal = owner.refuses("ibv_create_ah")) return failed<ibv_ah>(refusal);
  if (attributes->port_num != 1 || attributes->is_global == 0) return failed<ibv_ah>(EINVAL);
  const auto ends = engine::path_of(*owner.place, *attributes);
  if (!ends) return failed<ibv_ah>(EINVAL);
  auto ah = std::make_unique<engine::address_handle>();
  ah->context = pd->context;
  ah->pd = pd;
  ah->ends = *ends;
  ++of(pd).users;
  ++owner.objects;
  return ah.release();
}

int destroy_ah(ibv_ah* ah) {
  auto& owner = context_of(ah->context);
  if (!owner.is_alive()) return belongs_to_parent;
  --of(ah->pd).users;
  --owner.objects;
  delete static_cast<engine::address_handle*>(ah);
  return 0;
}

int init_ah_from_wc(ibv_context* context, std::uint8_t port, ibv_wc* completion, ibv_grh* grh,
                    ibv_ah_attr* attributes) {
  *attributes = {};
  attributes->port_num = port;  // and sl is 0: in the completion it tells the kind of the packet
  if ((completion->wc_flags & IBV_WC_GRH) == 0) return EINVAL;
  const auto* const raw = reinterpret_cast<const std::uint8_t*>(grh);
  net::address source;
  net::address destination;
  if (raw[0] >> 4 == 6) {
    std::memcpy(source.raw.data(), raw + 8, 16);
    std::memcpy(destination.raw.data(), raw + 24, 16);
  } else {
    for (auto* each : {&source, &destination}) each->raw[10] = each->raw[11] = 0xff;
    std::memcpy(source.raw.data() + 12, raw + 32, 4);
    std::memcpy(destination.raw.data() + 12, raw + 36, 4);
  }
  const auto rows = net::gid_table(context_of(context).place->device());
  // The row whose own GID it is, before one that only lends the address (the loopback's first).
  auto row = std::ranges::find(rows, destination, &net::gid_row::gid);
  if (row == rows.end()) return EINVAL;
  attributes->is_global = 1;
  std::memcpy(attributes->grh.dgid.raw, source.raw.data(), 16);
  attributes->grh.sgid_index = static_cast<std::uint8_t>(row - rows.begin());
  attributes->grh.hop_limit = 64;
  return 0;
}

int attach_mcast(ibv_qp* qp, const ibv_gid* group, std::uint16_t /*lid*/) {
  auto& pair = queue_pair::of(qp);
  if (const int refusal = pair.context.refuses("ibv_attach_mcast")) return refusal;
  const auto address = group_address(*group);
  if (!address.is_multicast() || pair.made.type != IBV_QPT_UD) return EINVAL;
  bool added = false;
  const int failure = pair.context.place->attach(pair.where, address, added);
  if (added) ++pair.groups;
  return failure;
}

int detach_mcast(ibv_qp* qp, const ibv_gid* group, std::uint16_t /*lid*/) {
  auto& pair = queue_pair::of(qp);
  if (!pair.context.is_alive()) return belongs_to_parent;
  if (!pair.context.place->detach(*pair.where, group_address(*group))) return EINVAL;
  --pair.groups;
  return 0;
}

}  // namespace softverbs::verbs
