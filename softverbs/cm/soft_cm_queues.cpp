// The functions of librdmacm for the queue pairs, shared receive queues and completion queues of an
// id.
#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <mutex>
#include <utility>

#include <cm/api_call.hpp>
#include <cm/cm_id.hpp>
#include <cm/local_device.hpp>
#include <cm/soft_cm.hpp>
#include <engine/device_context.hpp>
#include <engine/fault_plan.hpp>
#include <verbs/soft_verbs.hpp>

namespace softverbs::cm {
namespace {

/// Not through the inline functions of libibverbs, which may ask for exported ones of it.
const verbs_context& extended_functions(const rdma_cm_id* id) {
  return engine::device_context::of(id->verbs).verbs;
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
int initialise(const cm_id& who, ibv_qp* qp) {
  for (const auto state : {IBV_QPS_INIT, IBV_QPS_RTR, IBV_QPS_RTS}) {
    if (state != IBV_QPS_INIT && !who.is_datagram()) break;
    ibv_qp_attr attributes{};
    attributes.qp_state = state;
    int mask = IBV_QP_STATE;
    if (state == IBV_QPS_INIT) {
      if (const int failure = who.describe_qp(attributes, mask)) return failure;
    }
    if (state == IBV_QPS_RTS) mask |= IBV_QP_SQ_PSN;
    if (const int failure = verbs::modify_qp(qp, &attributes, mask)) return failure;
  }
  return 0;
}

}  // namespace

int create_qp_ex(rdma_cm_id* id, ibv_qp_init_attr_ex* attributes) {
  if (const int wanted = engine::injected_failure("rdma_create_qp")) return result(wanted);
  auto& who = cm_id::of(id);
  if (!who.is_alive()) return result(ENODEV);
  if (id->qp != nullptr || id->verbs == nullptr) return result(EINVAL);
  if ((attributes->comp_mask & IBV_QP_INIT_ATTR_PD) == 0) {
    attributes->comp_mask |= IBV_QP_INIT_ATTR_PD;
    attributes->pd = who.address.device()->pd;
  }
  const bool sends = attributes->qp_type != IBV_QPT_XRC_RECV;
  const bool receives = sends && attributes->qp_type != IBV_QPT_XRC_SEND;
  if (!sends && (attributes->comp_mask & IBV_QP_INIT_ATTR_XRCD) == 0) {
    attributes->comp_mask |= IBV_QP_INIT_ATTR_XRCD;
    attributes->xrcd = who.address.device()->xrc_domain;
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
    const std::lock_guard lock(who.manager.mutex);
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
  auto& who = cm_id::of(id);
  if (!who.is_alive()) return;
  ibv_qp* qp = nullptr;
  {
    const std::lock_guard lock(who.manager.mutex);
    qp = std::exchange(id->qp, nullptr);
  }
  if (qp != nullptr) verbs::destroy_qp(qp);
  destroy_cqs(id);
}

int init_qp_attr(rdma_cm_id* id, ibv_qp_attr* attributes, int* mask) {
  return with(id, [&](cm_id& who) { return who.describe_qp(*attributes, *mask); });
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
      attributes->xrcd = cm_id::of(id).address.device()->xrc_domain;
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

}  // namespace softverbs::cm
