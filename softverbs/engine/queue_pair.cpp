#include <engine/queue_pair.hpp>

#include <algorithm>
#include <cerrno>
#include <utility>

#include <base/log.hpp>
#include <base/settings.hpp>
#include <engine/address_handle.hpp>
#include <engine/qp_states.hpp>
#include <engine/verbs_requests.hpp>
#include <net/netdev.hpp>

namespace softverbs::engine {
namespace {

// IPv6, UDP, transport headers and ICRC.
constexpr std::size_t most_overhead = 80;

std::size_t bytes_of(ibv_mtu mtu) { return std::size_t{128} << mtu; }

transport::state state_of(ibv_qp_state from) {
  using transport::state;
  switch (from) {
    case IBV_QPS_INIT:
      return state::init;
    case IBV_QPS_RTR:
      return state::rtr;
    case IBV_QPS_RTS:
      return state::rts;
    case IBV_QPS_SQD:
      return state::sqd;
    case IBV_QPS_SQE:
      return state::sqe;
    case IBV_QPS_ERR:
      return state::error;
    default:
      return state::reset;
  }
}

}  // namespace

queue_pair::queue_pair(device_context& owner, std::shared_ptr<endpoint> end, const parts& made_of)
    : ibv_qp_ex{},
      context(owner),
      where(std::move(end)),
      made(made_of),
      core({.kind = service_of(made_of.type),
            .qpn = where->qpn,
            .domain = domain_of(made_of.pd),
            .shares_receives = made_of.srq != nullptr},
           {.requests = made_of.capacities.max_send_wr,
            .elements = made_of.capacities.max_send_sge,
            .inline_bytes = made_of.capacities.max_inline_data},
           owner.memory, *this),
      receives(made_of.capacities.max_recv_wr, made_of.capacities.max_recv_sge) {
  qp_base.context = owner.as_ibv();
  qp_base.qp_context = made_of.user_context;
  qp_base.pd = made_of.pd;
  qp_base.send_cq = made_of.send_cq != nullptr ? made_of.send_cq->as_cq() : nullptr;
  qp_base.recv_cq = made_of.receive_cq != nullptr ? made_of.receive_cq->as_cq() : nullptr;
  qp_base.srq = made_of.srq;
  qp_base.qp_num = where->qpn;
  qp_base.qp_type = made_of.type;
  qp_base.state = IBV_QPS_RESET;
  attributes.qp_state = IBV_QPS_RESET;
  attributes.path_mig_state = IBV_MIG_MIGRATED;
  origin_.name = {.qpn = where->qpn, .order = where->order};
}

queue_pair::~queue_pair() {
  const auto& packets = core.packets();
  if (packets.sent == 0) return;
  log(log_level::info, "queue pair {:#x}: {} packets of requests sent, {} of them again",
      where->qpn, packets.sent, packets.again);
}

int queue_pair::modify(const ibv_qp_attr& wanted, int mask) {
  mask = without_missing_half(made.type, mask);
  const entry_scope entry;
  const std::lock_guard lock(where->mutex);
  const auto from = (mask & IBV_QP_CUR_STATE) != 0 ? wanted.cur_qp_state : attributes.qp_state;
  const auto to = (mask & IBV_QP_STATE) != 0 ? wanted.qp_state : from;
  if (from != attributes.qp_state) return EINVAL;
  if (!transition_is_legal(from, to, made.type, mask)) return EINVAL;
  if (const int failure = check(wanted, mask)) return failure;
  if ((mask & IBV_QP_AV) != 0) {
    const bool names_peer = (mask & IBV_QP_DEST_QPN) != 0;
    const auto peer_qpn = names_peer ? wanted.dest_qp_num : attributes.dest_qp_num;
    if (const int failure = connect(wanted.ah_attr, peer_qpn)) return failure;
  }
  apply(wanted, mask);
  if (to == IBV_QPS_RTR && from == IBV_QPS_INIT && is_datagram()) {
    choose_datagram_mtu();
    context.place->ports().open_roce_ports();
  }
  if (to == IBV_QPS_RESET) {
    receives.clear();
    connected = nullptr;
    origin_.held.reset();
  }
  core.enter(state_of(to), to == IBV_QPS_RTR ? attributes.rq_psn : attributes.sq_psn);
  const bool tells = (mask & IBV_QP_EN_SQD_ASYNC_NOTIFY) != 0 && wanted.en_sqd_async_notify != 0;
  if (to == IBV_QPS_SQD && from == IBV_QPS_RTS && tells) core.tell_when_drained();
  set_state(to);
  if (to == IBV_QPS_RTS || to == IBV_QPS_SQD) keep_sending();
  return 0;
}

int queue_pair::check(const ibv_qp_attr& wanted, int mask) const {
  const auto is_beyond = [mask](int attribute, unsigned value, unsigned most) {
    return (mask & attribute) != 0 && value > most;
  };
  if ((mask & IBV_QP_PORT) != 0 && wanted.port_num != 1) return EINVAL;
  if (is_beyond(IBV_QP_PKEY_INDEX, wanted.pkey_index, 0)) return EINVAL;
  if ((mask & IBV_QP_ALT_PATH) != 0) return EOPNOTSUPP;
  if ((mask & IBV_QP_PATH_MIG_STATE) != 0 && wanted.path_mig_state != IBV_MIG_MIGRATED)
    return EOPNOTSUPP;
  constexpr unsigned remote = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |
                              IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC |
                              IBV_ACCESS_MW_BIND;
  if ((mask & IBV_QP_ACCESS_FLAGS) != 0 && (wanted.qp_access_flags & ~remote) != 0) return EINVAL;
  if (is_beyond(IBV_QP_MAX_QP_RD_ATOMIC, wanted.max_rd_atomic, 128)) return EINVAL;
  if (is_beyond(IBV_QP_MAX_DEST_RD_ATOMIC, wanted.max_dest_rd_atomic, 128)) return EINVAL;
  if (is_beyond(IBV_QP_TIMEOUT, wanted.timeout, 31)) return EINVAL;
  if (is_beyond(IBV_QP_RETRY_CNT, wanted.retry_cnt, 7)) return EINVAL;
  if (is_beyond(IBV_QP_RNR_RETRY, wanted.rnr_retry, 7)) return EINVAL;
  if (is_beyond(IBV_QP_MIN_RNR_TIMER, wanted.min_rnr_timer, 31)) return EINVAL;
  if (is_beyond(IBV_QP_DEST_QPN, wanted.dest_qp_num, wire::qpn_mask)) return EINVAL;
  if ((mask & IBV_QP_PATH_MTU) != 0) {
    if (wanted.path_mtu < IBV_MTU_256 || wanted.path_mtu > IBV_MTU_4096) return EINVAL;
    const auto port = net::netdev_by_index(context.place->device().index);
    const auto bytes = bytes_of(wanted.path_mtu);
    // Jumbo frames are needed for 2048 and more.
    if (bytes > settings::get().mtu || (port && bytes + most_overhead > port->mtu)) return EINVAL;
  }
  return 0;
}

int queue_pair::connect(const ibv_ah_attr& path, std::uint32_t qpn) {
  if (path.port_num != 0 && path.port_num != 1) return EINVAL;
  if (path.is_global == 0) return EINVAL;  // Ethernet has no local identifiers
  const auto wanted = path_of(*context.place, path);
  if (!wanted) return EINVAL;
  auto found = find_route(*context.place, where->qpn, *wanted, qpn);
  if (found == nullptr) return EINVAL;
  if (!found->same_host) {
    if (const int failure = context.place->ports().open_roce_port(wanted->source)) return failure;
  }
  ends = *wanted;
  connected = std::move(found);
  return 0;
}

void queue_pair::apply(const ibv_qp_attr& wanted, int mask) {
  if ((mask & IBV_QP_AV) != 0) attributes.ah_attr = wanted.ah_attr;
  if ((mask & IBV_QP_PORT) != 0) attributes.port_num = wanted.port_num;
  if ((mask & IBV_QP_PKEY_INDEX) != 0) attributes.pkey_index = wanted.pkey_index;
  if ((mask & IBV_QP_ACCESS_FLAGS) != 0) attributes.qp_access_flags = wanted.qp_access_flags;
  if ((mask & IBV_QP_QKEY) != 0) attributes.qkey = wanted.qkey;
  if ((mask & IBV_QP_PATH_MTU) != 0) attributes.path_mtu = wanted.path_mtu;
  if ((mask & IBV_QP_TIMEOUT) != 0) attributes.timeout = wanted.timeout;
  if ((mask & IBV_QP_RETRY_CNT) != 0) attributes.retry_cnt = wanted.retry_cnt;
  if ((mask & IBV_QP_RNR_RETRY) != 0) attributes.rnr_retry = wanted.rnr_retry;
  if ((mask & IBV_QP_RQ_PSN) != 0) attributes.rq_psn = wanted.rq_psn & wire::psn_mask;
  if ((mask & IBV_QP_SQ_PSN) != 0) attributes.sq_psn = wanted.sq_psn & wire::psn_mask;
  if ((mask & IBV_QP_MAX_QP_RD_ATOMIC) != 0) attributes.max_rd_atomic = wanted.max_rd_atomic;
  if ((mask & IBV_QP_MAX_DEST_RD_ATOMIC) != 0)
    attributes.max_dest_rd_atomic = wanted.max_dest_rd_atomic;
  if ((mask & IBV_QP_MIN_RNR_TIMER) != 0) attributes.min_rnr_timer = wanted.min_rnr_timer;
  if ((mask & IBV_QP_DEST_QPN) != 0) attributes.dest_qp_num = wanted.dest_qp_num;
  auto& agreed = core.agreed;
  if ((mask & IBV_QP_PATH_MTU) != 0) agreed.mtu = bytes_of(wanted.path_mtu);
  agreed.destination_qpn = attributes.dest_qp_num;
  agreed.qkey = attributes.qkey;
  agreed.rights = attributes.qp_access_flags;
  agreed.timeout = attributes.timeout;
  agreed.retry_count = attributes.retry_cnt;
  agreed.rnr_retry = attributes.rnr_retry;
  agreed.min_rnr_timer = attributes.min_rnr_timer;
  agreed.max_rd_atomic = attributes.max_rd_atomic;
  agreed.max_dest_rd_atomic = attributes.max_dest_rd_atomic;
}

void queue_pair::choose_datagram_mtu() {
  const auto port = net::netdev_by_index(context.place->device().index);
  auto& mtu = core.agreed.mtu;
  mtu = std::min<std::size_t>(settings::get().mtu, 4096);
  while (mtu > 256 && port && mtu + most_overhead > port->mtu) mtu /= 2;
}

void queue_pair::set_state(ibv_qp_state now) { attributes.qp_state = qp_base.state = now; }

void queue_pair::state_changed(transport::state now) {
  set_state(now == transport::state::sqe ? IBV_QPS_SQE : IBV_QPS_ERR);
}

void queue_pair::query(ibv_qp_attr& result, ibv_qp_init_attr& init) {
  const std::lock_guard lock(where->mutex);
  result = attributes;
  result.cur_qp_state = attributes.qp_state;
  result.cap = made.capacities;
  if (attributes.qp_state == IBV_QPS_RTS || attributes.qp_state == IBV_QPS_SQD)
    result.sq_psn = core.next_psn();
  if (attributes.qp_state == IBV_QPS_RTR || attributes.qp_state == IBV_QPS_RTS)
    result.rq_psn = core.expected_psn();
  result.sq_draining = attributes.qp_state == IBV_QPS_SQD && !core.is_drained();
  init = {};
  init.qp_context = qp_base.qp_context;
  init.send_cq = qp_base.send_cq;
  init.recv_cq = qp_base.recv_cq;
  init.srq = qp_base.srq;
  init.cap = made.capacities;
  init.qp_type = made.type;
  init.sq_sig_all = made.signal_all ? 1 : 0;
}

}  // namespace softverbs::engine
