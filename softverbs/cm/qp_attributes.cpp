#include <cm/qp_attributes.hpp>

#include <cerrno>

#include <cm/messages.hpp>
#include <rdma/rdma_cma.h>
#include <verbs/soft_verbs.hpp>

namespace softverbs::cm {
namespace {

void describe_init(bool is_datagram, const std::optional<connection_terms>& terms,
                   ibv_qp_attr& attributes, int& mask) {
  attributes.port_num = 1;
  mask |= IBV_QP_PKEY_INDEX | IBV_QP_PORT;
  if (is_datagram) {
    attributes.qkey = RDMA_UDP_QKEY;
    mask |= IBV_QP_QKEY;
    return;
  }
  mask |= IBV_QP_ACCESS_FLAGS;
  if (!terms) return;
  attributes.qp_access_flags = IBV_ACCESS_REMOTE_WRITE;
  if (terms->responder_resources != 0)
    attributes.qp_access_flags |= IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC;
}

void describe_rtr(const addressing& address, const connection_terms& terms, ibv_qp_attr& attributes,
                  int& mask) {
  attributes.path_mtu = address.path_mtu();
  attributes.dest_qp_num = terms.peer_qpn;
  attributes.rq_psn = terms.own_psn;
  attributes.max_dest_rd_atomic = terms.responder_resources;
  attributes.ah_attr = address.path_to(address.both().peer);
  attributes.ah_attr.grh.traffic_class = address.chosen().type_of_service;
  attributes.ah_attr.grh.flow_label = flow_label(terms.own_qpn, terms.peer_qpn);
  mask |= IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
          IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
}

void describe_rts(const addressing& address, const connection_terms& terms, ibv_qp_attr& attributes,
                  int& mask) {
  attributes.sq_psn = terms.peer_psn;
  attributes.timeout = address.ack_timeout();
  attributes.retry_cnt = terms.retry_count;
  attributes.rnr_retry = terms.rnr_retry_count;
  attributes.max_rd_atomic = terms.initiator_depth;
  mask |= IBV_QP_SQ_PSN | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
          IBV_QP_MAX_QP_RD_ATOMIC;
}

}  // namespace

int describe_qp(const addressing& address, bool is_datagram,
                const std::optional<connection_terms>& terms, ibv_qp_attr& attributes, int& mask) {
  if (address.device() == nullptr) return EINVAL;
  if (!address.device()->gid_index_of(address.both().own)) return EADDRNOTAVAIL;
  if (address.current_state() == addressing::state::listening) return EINVAL;
  const auto state = attributes.qp_state;
  attributes = {};
  attributes.qp_state = state;
  mask = IBV_QP_STATE;
  // Without a peer, and without connections, the answer is the same for all states.
  if (is_datagram || !terms) {
    describe_init(is_datagram, {}, attributes, mask);
    return 0;
  }
  if (state != IBV_QPS_INIT && terms->peer_qpn == 0) return EINVAL;
  switch (state) {
    case IBV_QPS_INIT:
      describe_init(false, terms, attributes, mask);
      return 0;
    case IBV_QPS_RTR:
      describe_rtr(address, *terms, attributes, mask);
      return 0;
    case IBV_QPS_RTS:
      describe_rts(address, *terms, attributes, mask);
      return 0;
    default:
      return EINVAL;
  }
}

int make_qp_ready(ibv_qp* qp, const addressing& address, const connection_terms& terms) {
  // INIT once more: what the peer may do is known only now.
  for (const auto state : {IBV_QPS_INIT, IBV_QPS_RTR, IBV_QPS_RTS}) {
    ibv_qp_attr attributes{};
    attributes.qp_state = state;
    int mask = 0;
    if (const int failure = describe_qp(address, false, terms, attributes, mask)) return failure;
    if (const int failure = verbs::modify_qp(qp, &attributes, mask)) return failure;
  }
  return 0;
}

void fail_qp(ibv_qp* qp) {
  ibv_qp_attr wanted{};
  wanted.qp_state = IBV_QPS_ERR;
  static_cast<void>(verbs::modify_qp(qp, &wanted, IBV_QP_STATE));
}

}  // namespace softverbs::cm
