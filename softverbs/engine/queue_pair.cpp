#include <engine/queue_pair.hpp>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string_view>

#include <base/log.hpp>
#include <base/settings.hpp>
#include <engine/address_handle.hpp>
#include <engine/qp_states.hpp>
#include <net/netdev.hpp>

namespace softverbs::engine {
namespace {

constexpr std::uint64_t longest_message = std::uint64_t{1} << 31;
// Queue pair numbers of devices of this kind begin with a port; other devices count from 0.
constexpr std::uint32_t lowest_soft_qpn = 1024U << 8;

std::size_t bytes_of(ibv_mtu mtu) { return std::size_t{128} << mtu; }

/// As the fault plan calls it.
std::string_view name_of(ibv_wr_opcode opcode) {
  switch (opcode) {
    case IBV_WR_RDMA_WRITE:
    case IBV_WR_RDMA_WRITE_WITH_IMM:
      return "WRITE";
    case IBV_WR_RDMA_READ:
      return "READ";
    case IBV_WR_ATOMIC_CMP_AND_SWP:
    case IBV_WR_ATOMIC_FETCH_AND_ADD:
      return "ATOMIC";
    case IBV_WR_BIND_MW:
      return "BIND";
    case IBV_WR_LOCAL_INV:
      return "INVALIDATE";
    default:
      return "SEND";
  }
}

}  // namespace

queue_pair::queue_pair(device_context& owner, std::shared_ptr<endpoint> end, const parts& made_of)
    : ibv_qp_ex{},
      context(owner),
      where(std::move(end)),
      made(made_of),
      sends(made_of.capacities.max_send_wr, made_of.capacities.max_send_sge,
            made_of.capacities.max_inline_data),
      receives(made_of.capacities.max_recv_wr, made_of.capacities.max_recv_sge),
      out(*this),
      in(*this) {
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
  origin.name = {.qpn = where->qpn, .order = where->order};
}

wire::transport queue_pair::service() const {
  switch (made.type) {
    case IBV_QPT_UC:
      return wire::transport::uc;
    case IBV_QPT_UD:
      return wire::transport::ud;
    case IBV_QPT_XRC_SEND:
    case IBV_QPT_XRC_RECV:
      return wire::transport::xrc;
    default:
      return wire::transport::rc;
  }
}

// --- states ----------------------------------------------------------------------------------

int queue_pair::modify(const ibv_qp_attr& wanted, int mask) {
  mask = without_missing_half(made.type, mask);
  const entry_scope entry;
  const std::lock_guard lock(where->mutex);
  const auto from = (mask & IBV_QP_CUR_STATE) != 0 ? wanted.cur_qp_state : attributes.qp_state;
  const auto to = (mask & IBV_QP_STATE) != 0 ? wanted.qp_state : from;
  if (from != attributes.qp_state) return EINVAL;
  if (!transition_is_legal(from, to, made.type, mask)) return EINVAL;
  if (const int failure = apply(wanted, mask)) return failure;

  attributes.qp_state = to;
  if (to == IBV_QPS_RESET) reset();
  if (to == IBV_QPS_ERR && from != IBV_QPS_ERR) {
    attributes.qp_state = from;
    enter_error();
  }
  if (to == IBV_QPS_RTR && from == IBV_QPS_INIT) {
    if (!is_connected_type()) {
      const auto port = net::netdev_by_index(context.place->device().index);
      mtu_bytes = std::min<std::size_t>(settings::get().mtu, 4096);
      while (mtu_bytes > 256 && port && mtu_bytes + 80 > port->mtu) mtu_bytes /= 2;
      context.place->open_well_known_ports();
    }
    in.reset(attributes.rq_psn);
  }
  if (to == IBV_QPS_RTS && from == IBV_QPS_RTR) out.reset(attributes.sq_psn);
  if (to != IBV_QPS_SQD) {
    tell_when_drained_ = false;
  } else if (from == IBV_QPS_RTS) {
    tell_when_drained_ =
        (mask & IBV_QP_EN_SQD_ASYNC_NOTIFY) != 0 && wanted.en_sqd_async_notify != 0;
  }
  qp_base.state = attributes.qp_state;
  if (to == IBV_QPS_RTS || to == IBV_QPS_SQD) keep_sending();
  return 0;
}

int queue_pair::apply(const ibv_qp_attr& wanted, int mask) {
  // Everything is checked before anything is changed.
  if ((mask & IBV_QP_PORT) != 0 && wanted.port_num != 1) return EINVAL;
  if ((mask & IBV_QP_PKEY_INDEX) != 0 && wanted.pkey_index != 0) return EINVAL;
  if ((mask & IBV_QP_ALT_PATH) != 0) return EOPNOTSUPP;
  if ((mask & IBV_QP_PATH_MIG_STATE) != 0 && wanted.path_mig_state != IBV_MIG_MIGRATED)
    return EOPNOTSUPP;
  constexpr unsigned remote = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |
                              IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC |
                              IBV_ACCESS_MW_BIND;
  if ((mask & IBV_QP_ACCESS_FLAGS) != 0 && (wanted.qp_access_flags & ~remote) != 0) return EINVAL;
  if ((mask & IBV_QP_MAX_QP_RD_ATOMIC) != 0 && wanted.max_rd_atomic > 128) return EINVAL;
  if ((mask & IBV_QP_MAX_DEST_RD_ATOMIC) != 0 && wanted.max_dest_rd_atomic > 128) return EINVAL;
  if ((mask & IBV_QP_TIMEOUT) != 0 && wanted.timeout > 31) return EINVAL;
  if ((mask & IBV_QP_RETRY_CNT) != 0 && wanted.retry_cnt > 7) return EINVAL;
  if ((mask & IBV_QP_RNR_RETRY) != 0 && wanted.rnr_retry > 7) return EINVAL;
  if ((mask & IBV_QP_MIN_RNR_TIMER) != 0 && wanted.min_rnr_timer > 31) return EINVAL;
  if ((mask & IBV_QP_DEST_QPN) != 0 && wanted.dest_qp_num > wire::qpn_mask) return EINVAL;
  if ((mask & IBV_QP_PATH_MTU) != 0) {
    if (wanted.path_mtu < IBV_MTU_256 || wanted.path_mtu > IBV_MTU_4096) return EINVAL;
    const auto port = net::netdev_by_index(context.place->device().index);
    const auto bytes = bytes_of(wanted.path_mtu);
    // 80 bytes of IPv6, UDP, transport headers and ICRC; jumbo frames are needed for 2048 and more.
    if (bytes > settings::get().mtu || (port && bytes + 80 > port->mtu)) return EINVAL;
  }
  if ((mask & IBV_QP_AV) != 0) {
    auto with_number = wanted;
    if ((mask & IBV_QP_DEST_QPN) == 0) with_number.dest_qp_num = attributes.dest_qp_num;
    if (const int failure = connect(with_number)) return failure;
    attributes.ah_attr = wanted.ah_attr;
  }
  if ((mask & IBV_QP_PORT) != 0) attributes.port_num = wanted.port_num;
  if ((mask & IBV_QP_PKEY_INDEX) != 0) attributes.pkey_index = wanted.pkey_index;
  if ((mask & IBV_QP_ACCESS_FLAGS) != 0) attributes.qp_access_flags = wanted.qp_access_flags;
  if ((mask & IBV_QP_QKEY) != 0) attributes.qkey = wanted.qkey;
  if ((mask & IBV_QP_PATH_MTU) != 0) {
    attributes.path_mtu = wanted.path_mtu;
    mtu_bytes = bytes_of(wanted.path_mtu);
  }
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
  return 0;
}

int queue_pair::connect(const ibv_qp_attr& wanted) {
  const auto& path = wanted.ah_attr;
  if (path.port_num != 0 && path.port_num != 1) return EINVAL;
  if (path.is_global == 0) return EINVAL;  // Ethernet has no local identifiers
  const auto wanted_ends = path_of(*context.place, path);
  if (!wanted_ends) return EINVAL;
  auto found = find_route(*wanted_ends, wanted.dest_qp_num);
  if (found == nullptr) return EINVAL;
  if (!found->same_host) {
    if (const int failure = context.place->open_well_known_port(wanted_ends->source))
      return failure;
  }
  ends = *wanted_ends;
  connected = std::move(found);
  return 0;
}

std::shared_ptr<route> queue_pair::route_to(const path_ends& wanted, std::uint32_t qpn) {
  for (auto& known : recent_routes_) {
    if (known.way == nullptr || known.qpn != qpn || known.source != wanted.source ||
        known.destination != wanted.destination ||
        known.way->flow.traffic_class != wanted.traffic_class)
      continue;
    // A queue pair of this process that has gone may have a successor of the same number.
    if (known.way->in_process != nullptr && known.way->in_process->closed) break;
    return known.way;
  }
  auto found = find_route(wanted, qpn);
  recent_routes_[next_recent_++ % recent_routes_.size()] = {
      .source = wanted.source, .destination = wanted.destination, .qpn = qpn, .way = found};
  return found;
}

std::shared_ptr<route> queue_pair::find_route(const path_ends& wanted, std::uint32_t qpn) const {
  auto found = std::make_shared<route>();
  found->place = context.place.get();
  found->socket = context.place->socket_of(where->qpn, wanted.source);
  if (found->socket == nullptr) return nullptr;
  // A number below the ports of this kind belongs to another implementation on this host.
  found->same_host = qpn >= lowest_soft_qpn && net::is_local(wanted.destination);
  if (found->same_host) found->in_process = find_in_process(wanted.destination, qpn);
  if (found->same_host && found->in_process == nullptr) {
    found->ring = context.place->ring_to(where->qpn, wanted.source, wanted.destination,
                                         static_cast<std::uint16_t>(qpn >> 8));
  }
  const auto port = found->same_host ? static_cast<std::uint16_t>(qpn >> 8) : wire::roce_udp_port;
  found->flow = {.source = wanted.source,
                 .destination = wanted.destination,
                 .source_port = found->socket->port(),
                 .destination_port = port,
                 .traffic_class = wanted.traffic_class};
  found->to_bytes = wanted.destination.to_sockaddr(port, context.place->device().index, found->to);
  found->with_icrc = !found->same_host || settings::get().icrc == icrc_use::always;
  return found;
}

void queue_pair::reset() {
  sends.clear();
  receives.clear();
  in.reset(0);
  out.reset(0);
  connected = nullptr;
  origin.held.reset();
}

void queue_pair::enter_error() {
  if (attributes.qp_state == IBV_QPS_ERR) return;
  // What has been received has been received: the peer shall not learn otherwise.
  if (in.has_acknowledgement()) send_acknowledgement();
  attributes.qp_state = IBV_QPS_ERR;
  qp_base.state = IBV_QPS_ERR;
  flush();
  if (made.srq != nullptr) raise(IBV_EVENT_QP_LAST_WQE_REACHED);
}

void queue_pair::enter_send_error() {
  if (attributes.qp_state != IBV_QPS_RTS && attributes.qp_state != IBV_QPS_SQD) return;
  attributes.qp_state = IBV_QPS_SQE;
  qp_base.state = IBV_QPS_SQE;
  while (!sends.is_empty()) complete_oldest_send(IBV_WC_WR_FLUSH_ERR);
  out.reset(out.next_psn());
}

void queue_pair::flush() {
  while (!sends.is_empty()) complete_oldest_send(IBV_WC_WR_FLUSH_ERR);
  out.reset(out.next_psn());
  receive_work work;
  const auto flush_receive = [&] {
    ibv_wc wc{};
    wc.wr_id = work.wr_id;
    wc.status = IBV_WC_WR_FLUSH_ERR;
    wc.opcode = IBV_WC_RECV;
    wc.qp_num = where->qpn;
    push_completion(*made.receive_cq, wc, false);
  };
  const bool current = in.take_current_receive(work);
  if (made.receive_cq == nullptr) return;
  if (current) flush_receive();
  while (!receives.is_empty()) {
    receives.pop(work);
    flush_receive();
  }
}

// --- completions -----------------------------------------------------------------------------

void queue_pair::complete_oldest_send(ibv_wc_status status) {
  // Out of the queue first: a completion queue that overflows flushes what is in it.
  auto& oldest = sends[sends.tail()];
  oldest.started = false;
  sends.pop();
  complete_send(oldest, status);
}

void queue_pair::complete_send(const send_work& work, ibv_wc_status status) {
  const bool wanted = made.signal_all || (work.flags & IBV_SEND_SIGNALED) != 0;
  if (status == IBV_WC_SUCCESS && !wanted) return;
  if (status != IBV_WC_SUCCESS && status != IBV_WC_WR_FLUSH_ERR) {
    log(log_level::info, "queue pair {:#x} towards {:#x}: send request {:#x} failed with status {}",
        where->qpn, attributes.dest_qp_num, work.wr_id, static_cast<int>(status));
  }
  ibv_wc wc{};
  wc.wr_id = work.wr_id;
  wc.status = status;
  wc.qp_num = where->qpn;
  switch (work.opcode) {
    case IBV_WR_RDMA_WRITE:
    case IBV_WR_RDMA_WRITE_WITH_IMM:
      wc.opcode = IBV_WC_RDMA_WRITE;
      break;
    case IBV_WR_RDMA_READ:
      wc.opcode = IBV_WC_RDMA_READ;
      wc.byte_len = static_cast<std::uint32_t>(work.bytes);
      break;
    case IBV_WR_ATOMIC_CMP_AND_SWP:
      wc.opcode = IBV_WC_COMP_SWAP;
      wc.byte_len = sizeof(std::uint64_t);
      break;
    case IBV_WR_ATOMIC_FETCH_AND_ADD:
      wc.opcode = IBV_WC_FETCH_ADD;
      wc.byte_len = sizeof(std::uint64_t);
      break;
    case IBV_WR_BIND_MW:
      wc.opcode = IBV_WC_BIND_MW;
      break;
    case IBV_WR_LOCAL_INV:
      wc.opcode = IBV_WC_LOCAL_INV;
      break;
    default:
      wc.opcode = IBV_WC_SEND;
      break;
  }
  if (made.send_cq != nullptr) push_completion(*made.send_cq, wc, false);
}

void queue_pair::push_completion(completion_queue& cq, const ibv_wc& wc, bool solicited) {
  if (cq.push(wc, solicited)) return;
  // A completion was lost: nothing that follows can be trusted (11.6.3.2).
  if (attributes.qp_state == IBV_QPS_ERR) return;
  raise(IBV_EVENT_QP_FATAL);
  enter_error();
}

// --- posting ---------------------------------------------------------------------------------

int queue_pair::post_receive(ibv_recv_wr* list, ibv_recv_wr** bad) {
  const std::lock_guard lock(where->mutex);
  for (auto* request = list; request != nullptr; request = request->next) {
    int failure = 0;
    if (attributes.qp_state == IBV_QPS_RESET || made.srq != nullptr || made.receive_cq == nullptr) {
      failure = EINVAL;
    } else if (attributes.qp_state == IBV_QPS_ERR) {
      if (request->num_sge < 0 ||
          static_cast<unsigned>(request->num_sge) > made.capacities.max_recv_sge) {
        failure = EINVAL;
      } else {
        ibv_wc wc{};
        wc.wr_id = request->wr_id;
        wc.status = IBV_WC_WR_FLUSH_ERR;
        wc.opcode = IBV_WC_RECV;
        wc.qp_num = where->qpn;
        push_completion(*made.receive_cq, wc, false);
      }
    } else {
      failure = receives.push(*request);
    }
    if (failure != 0) {
      *bad = request;
      return failure;
    }
  }
  return 0;
}

int queue_pair::may_post_send() const {
  switch (attributes.qp_state) {
    case IBV_QPS_RTS:
    case IBV_QPS_SQD:
    case IBV_QPS_SQE:
    case IBV_QPS_ERR:
      return made.type == IBV_QPT_XRC_RECV ? EINVAL : 0;
    default:
      return EINVAL;
  }
}

int queue_pair::fill(send_work& work, std::uint64_t index, const ibv_send_wr& request) {
  const bool datagrams = made.type == IBV_QPT_UD;
  const bool reliable = made.type == IBV_QPT_RC || made.type == IBV_QPT_XRC_SEND;
  work = {.wr_id = request.wr_id, .opcode = request.opcode, .flags = request.send_flags};
  switch (request.opcode) {
    case IBV_WR_SEND_WITH_IMM:
      work.immediate = request.imm_data;
      break;
    case IBV_WR_SEND:
      break;
    case IBV_WR_SEND_WITH_INV:
      if (!reliable) return EINVAL;
      work.immediate = request.invalidate_rkey;
      break;
    case IBV_WR_RDMA_READ:
      if (!reliable) return EINVAL;
      [[fallthrough]];
    case IBV_WR_RDMA_WRITE:
    case IBV_WR_RDMA_WRITE_WITH_IMM:
      if (datagrams) return EINVAL;
      work.immediate = request.imm_data;
      work.remote_address = request.wr.rdma.remote_addr;
      work.rkey = request.wr.rdma.rkey;
      break;
    case IBV_WR_ATOMIC_CMP_AND_SWP:
    case IBV_WR_ATOMIC_FETCH_AND_ADD:
      if (!reliable) return EINVAL;
      work.remote_address = request.wr.atomic.remote_addr;
      work.rkey = request.wr.atomic.rkey;
      work.compare_or_add = request.wr.atomic.compare_add;
      work.swap = request.wr.atomic.swap;
      break;
    case IBV_WR_LOCAL_INV:
      if (!reliable) return EINVAL;
      work.immediate = request.invalidate_rkey;
      return 0;
    case IBV_WR_BIND_MW: {
      if (datagrams || request.bind_mw.mw == nullptr) return EINVAL;
      work.window = static_cast<memory_window*>(request.bind_mw.mw);
      work.region = static_cast<memory_region*>(request.bind_mw.bind_info.mr);
      work.region_key = work.region != nullptr ? work.region->lkey : 0;
      work.rkey = request.bind_mw.rkey;
      work.bind_address = request.bind_mw.bind_info.addr;
      work.bind_bytes = request.bind_mw.bind_info.length;
      work.bind_access = request.bind_mw.bind_info.mw_access_flags;
      return work.window->type == IBV_MW_TYPE_2 ? 0 : EINVAL;
    }
    default:
      return EINVAL;
  }
  if (datagrams) {
    if (request.wr.ud.ah == nullptr) return EINVAL;
    work.to = static_cast<address_handle*>(request.wr.ud.ah)->ends;
    work.remote_qpn = request.wr.ud.remote_qpn & wire::qpn_mask;
    work.remote_qkey = request.wr.ud.remote_qkey;
  }
  if (made.type == IBV_QPT_XRC_SEND) work.xrc_srqn = request.qp_type.xrc.remote_srqn;

  if (request.num_sge < 0) return EINVAL;
  const auto count = static_cast<unsigned>(request.num_sge);
  if ((request.send_flags & IBV_SEND_INLINE) != 0) {
    if (work.is_read() || work.is_atomic()) return EINVAL;
    auto* into = sends.inline_data(index);
    for (unsigned i = 0; i < count; ++i) {
      const auto& element = request.sg_list[i];
      if (element.length == 0) continue;  // its address may be anything
      if (work.bytes + element.length > sends.most_inline()) return ENOMEM;
      std::memcpy(into + work.bytes, reinterpret_cast<const void*>(element.addr), element.length);
      work.bytes += element.length;
    }
    work.inline_data = true;
    return 0;
  }
  if (count > sends.most_sge()) return EINVAL;
  for (unsigned i = 0; i < count; ++i) {
    sends.elements(index)[i] = request.sg_list[i];
    work.bytes += request.sg_list[i].length;
  }
  work.elements = count;
  if (work.bytes > longest_message) return EINVAL;
  if (work.is_atomic()) {
    if (work.bytes < sizeof(std::uint64_t)) return EINVAL;
    work.bytes = sizeof(std::uint64_t);
  }
  return 0;
}

int queue_pair::post_send(ibv_send_wr* list, ibv_send_wr** bad) {
  const entry_scope entry;
  const std::lock_guard lock(where->mutex);
  unsigned count = 0;
  int failure = may_post_send();
  auto* request = list;
  for (; request != nullptr && failure == 0; request = request->next) {
    failure = sends.has_slot(count)
                  ? fill(sends[sends.next_slot(count)], sends.next_slot(count), *request)
                  : ENOMEM;
    if (failure != 0) break;
    ++count;
  }
  if (failure != 0) *bad = request;
  if (count > 0) posted(count);
  return failure;
}

int queue_pair::bind_window(memory_window& window, const ibv_mw_bind& wanted) {
  const entry_scope entry;
  const std::lock_guard lock(where->mutex);
  if (const int failure = may_post_send()) return failure;
  if (window.type != IBV_MW_TYPE_1 || window.pd != made.pd || made.type == IBV_QPT_UD)
    return EINVAL;
  if (!sends.has_slot()) return ENOMEM;
  auto& work = sends[sends.next_slot()];
  work = {.wr_id = wanted.wr_id, .opcode = IBV_WR_BIND_MW, .flags = wanted.send_flags};
  work.rkey = context.memory.choose_key(window);
  work.window = &window;
  work.region = static_cast<memory_region*>(wanted.bind_info.mr);
  work.region_key = work.region != nullptr ? work.region->lkey : 0;
  work.bind_address = wanted.bind_info.addr;
  work.bind_bytes = wanted.bind_info.length;
  work.bind_access = wanted.bind_info.mw_access_flags;
  posted(1);
  return 0;
}

ibv_wc_status queue_pair::injected_status(std::string_view operation) {
  using action = fault_rule::action;
  const auto fate = fault_plan::of_process().on_operation(origin.name, operation);
  if (!fate.what) return IBV_WC_SUCCESS;
  if (fate.what == action::complete) return fate.status;
  if (fate.what == action::break_queue_pair) {
    raise(IBV_EVENT_QP_FATAL);
    return IBV_WC_WR_FLUSH_ERR;
  }
  context.place->begin_outage(*fate.what, fate.duration, fate.edition);
  return IBV_WC_SUCCESS;
}

void queue_pair::inject_faults(unsigned count) {
  for (unsigned i = 0; i < count; ++i) {
    auto& work = sends[sends.next_slot(i)];
    work.failed = injected_status(name_of(work.opcode));
  }
}

void queue_pair::break_for_lack_of_memory() noexcept {
  log(log_level::error, "queue pair {:#x} breaks: there is no memory", where->qpn);
  if (attributes.qp_state == IBV_QPS_ERR || attributes.qp_state == IBV_QPS_RESET) return;
  raise(IBV_EVENT_QP_FATAL);
  try {
    enter_error();
  } catch (...) {
    attributes.qp_state = qp_base.state = IBV_QPS_ERR;
  }
}

void queue_pair::posted(unsigned count) noexcept {
  try {
    if (fault_plan::of_process().is_active(fault_site::operation)) inject_faults(count);
  } catch (...) {
    break_for_lack_of_memory();
  }
  sends.publish(count);
  if (attributes.qp_state == IBV_QPS_ERR || attributes.qp_state == IBV_QPS_SQE) {
    while (!sends.is_empty()) complete_oldest_send(IBV_WC_WR_FLUSH_ERR);
    return;
  }
  try {
    keep_sending();
  } catch (...) {
    break_for_lack_of_memory();
  }
}

// --- the network -----------------------------------------------------------------------------

bool queue_pair::is_from_peer(const inbound& packet) const {
  if (packet.source != ends.destination) return false;
  using way = inbound::way;
  // What comes through the well-known port has the network's trust: none. So a neighbour, whom the
  // kernel vouches for, is never heard from that way, and another host in no other way.
  if (!connected->same_host) return packet.came == way::well_known_port;
  if (packet.came == way::well_known_port) return false;
  // Between processes of one host a sender is known by its port.
  return packet.came == way::in_process || packet.source_port == attributes.dest_qp_num >> 8;
}

void queue_pair::receive(const inbound& packet) noexcept try {
  if (context.place->port_is_down()) return;
  const auto& header = packet.packet.header;
  ++received_.packets;
  received_.bytes += wire::packet_bytes(header, packet.packet.payload.size());
  const auto state = attributes.qp_state;
  if (state != IBV_QPS_RTR && state != IBV_QPS_RTS && state != IBV_QPS_SQD && state != IBV_QPS_SQE)
    return;
  if (header.service != service()) return;
  if ((header.pkey & 0x7fff) != 0x7fff) return;  // 10.9.2: only the default partition
  if (made.type == IBV_QPT_UD) {
    if (header.op == wire::operation::acknowledge) {
      out.on_flow_control(header.psn);
      return;
    }
    in.on_datagram(packet);
    const bool by_itself =
        packet.came == inbound::way::in_process ||
        (packet.came == inbound::way::same_host && packet.source_port == header.source_qpn >> 8);
    if (header.ack_request && by_itself) {
      const auto back =
          route_to({.source = packet.destination, .destination = packet.source}, header.source_qpn);
      if (back != nullptr) {
        sender answer(*back, origin);
        answer.add({.service = wire::transport::ud,
                    .op = wire::operation::acknowledge,
                    .destination_qpn = header.source_qpn,
                    .psn = header.psn,
                    .syndrome = wire::syndrome_ack},
                   {});
      }
    }
    return;
  }
  if (!is_from_peer(packet)) return;
  switch (header.op) {
    case wire::operation::acknowledge:
      if (made.type == IBV_QPT_UC) {
        out.on_flow_control(header.psn);
      } else if (state == IBV_QPS_RTS || state == IBV_QPS_SQD) {
        out.on_acknowledge(header);
      }
      return;
    case wire::operation::atomic_acknowledge:
      if (state == IBV_QPS_RTS || state == IBV_QPS_SQD) out.on_atomic_acknowledge(header);
      return;
    case wire::operation::read_response_first:
    case wire::operation::read_response_middle:
    case wire::operation::read_response_last:
    case wire::operation::read_response_only:
      if (state == IBV_QPS_RTS || state == IBV_QPS_SQD) out.on_read_response(packet.packet);
      return;
    default:
      if (made.type != IBV_QPT_XRC_SEND) in.on_request(packet);
  }
} catch (...) {
  break_for_lack_of_memory();
}

void queue_pair::after_receiving(bool called_by_user) noexcept try {
  context.place->traffic.add_received(std::exchange(received_, {}));
  const bool later = called_by_user && !in.has_answers() && in.has_acknowledgement() &&
                     context.place->acknowledge_later(*where);
  if (!later && in.pump()) deferred_work::add(where);
  keep_sending();
} catch (...) {
  break_for_lack_of_memory();
}

void queue_pair::send_acknowledgement() noexcept try {
  if (in.pump()) deferred_work::add(where);
} catch (...) {
  break_for_lack_of_memory();
}

void queue_pair::keep_sending() {
  if (out.pump()) deferred_work::add(where);
  set_timer();
  if (tell_when_drained_ && attributes.qp_state == IBV_QPS_SQD && out.is_idle()) {
    tell_when_drained_ = false;
    raise(IBV_EVENT_SQ_DRAINED);
  }
}

void queue_pair::on_timer(time_point now) noexcept try {
  if (attributes.qp_state == IBV_QPS_RTS || attributes.qp_state == IBV_QPS_SQD) out.on_timer(now);
  if (in.has_answers() && in.pump()) deferred_work::add(where);
  keep_sending();
} catch (...) {
  break_for_lack_of_memory();
}

void queue_pair::look_again(time_point when) { context.place->set_timer(*where, when); }

void queue_pair::set_timer() {
  const auto deadline = out.next_deadline();
  if (deadline != never) context.place->set_timer(*where, deadline);
}

// --- queries ---------------------------------------------------------------------------------

void queue_pair::query(ibv_qp_attr& result, ibv_qp_init_attr& init) {
  const std::lock_guard lock(where->mutex);
  result = attributes;
  result.cur_qp_state = attributes.qp_state;
  result.cap = made.capacities;
  if (attributes.qp_state == IBV_QPS_RTS || attributes.qp_state == IBV_QPS_SQD)
    result.sq_psn = out.next_psn();
  if (attributes.qp_state == IBV_QPS_RTR || attributes.qp_state == IBV_QPS_RTS)
    result.rq_psn = in.expected_psn();
  result.sq_draining = attributes.qp_state == IBV_QPS_SQD && !out.is_idle();
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
