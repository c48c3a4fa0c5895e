// What a queue pair of verbs does all the time: requests in, packets in and out, completions and
// events out.
#include <cerrno>
#include <utility>

#include <base/log.hpp>
#include <engine/fault_plan.hpp>
#include <engine/management.hpp>
#include <engine/queue_pair.hpp>
#include <engine/verbs_requests.hpp>

namespace softverbs::engine {
namespace {

using transport::opcode;
using transport::status;

// A17.4.5.1: a completion tells what kind of packet a datagram came in. Its place is the service
// level, as with the hardware that UCX knows, which finds the destination's GID by it.
constexpr std::uint8_t udp_over_ipv6 = 0b1001;
constexpr std::uint8_t udp_over_ipv4 = 0b1010;

// The transport's numbers are those of verbs.
static_assert(static_cast<int>(status::local_length_error) == IBV_WC_LOC_LEN_ERR);
static_assert(static_cast<int>(status::flushed) == IBV_WC_WR_FLUSH_ERR);
static_assert(static_cast<int>(status::rnr_retries_exceeded) == IBV_WC_RNR_RETRY_EXC_ERR);
static_assert(transport::access::local_write == IBV_ACCESS_LOCAL_WRITE);
static_assert(transport::access::remote_write == IBV_ACCESS_REMOTE_WRITE);
static_assert(transport::access::remote_read == IBV_ACCESS_REMOTE_READ);
static_assert(transport::access::remote_atomic == IBV_ACCESS_REMOTE_ATOMIC);
static_assert(transport::access::bind_window == IBV_ACCESS_MW_BIND);
static_assert(transport::access::zero_based == IBV_ACCESS_ZERO_BASED);

ibv_wc_status status_of(status result) { return static_cast<ibv_wc_status>(result); }

/// As the fault plan calls it.
std::string_view name_of(opcode op) {
  switch (op) {
    case opcode::write:
    case opcode::write_immediate:
      return "WRITE";
    case opcode::read:
      return "READ";
    case opcode::compare_swap:
    case opcode::fetch_add:
      return "ATOMIC";
    case opcode::bind_window:
      return "BIND";
    case opcode::local_invalidate:
      return "INVALIDATE";
    case opcode::send:
    case opcode::send_immediate:
    case opcode::send_invalidate:
      break;
  }
  return "SEND";
}

bool plan_looks_at_operations() {
  return fault_plan::of_process().is_active(fault_site::operation);
}

}  // namespace

// --- requests in -----------------------------------------------------------------------------

int queue_pair::post_receive(ibv_recv_wr* list, ibv_recv_wr** bad) {
  const std::lock_guard lock(where->mutex);
  for (auto* request = list; request != nullptr; request = request->next) {
    const bool impossible = attributes.qp_state == IBV_QPS_RESET || made.srq != nullptr ||
                            made.receive_cq == nullptr || request->num_sge < 0 ||
                            static_cast<unsigned>(request->num_sge) > made.capacities.max_recv_sge;
    int failure = impossible ? EINVAL : 0;
    if (failure == 0 && attributes.qp_state == IBV_QPS_ERR) {
      transport::receive_work flushed;
      flushed.id = request->wr_id;
      static_cast<void>(complete({.request = flushed, .result = status::flushed}));
    } else if (failure == 0) {
      failure = push(receives, *request);
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

int queue_pair::post_send(ibv_send_wr* list, ibv_send_wr** bad) {
  const entry_scope entry;
  const std::lock_guard lock(where->mutex);
  unsigned count = 0;
  int failure = may_post_send();
  auto* request = list;
  for (; request != nullptr && failure == 0; request = request->next) {
    failure = core.sends.has_slot(count)
                  ? fill(core.made.kind, core.sends, core.sends.next_slot(count), *request)
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
  if (window.type != IBV_MW_TYPE_1 || window.pd != made.pd || is_datagram()) return EINVAL;
  if (!core.sends.has_slot()) return ENOMEM;
  auto& work = core.sends[core.sends.next_slot()];
  if (const int failure = begin(work, wanted.wr_id, IBV_WR_BIND_MW, wanted.send_flags))
    return failure;
  window.rkey = context.memory.choose_key(window);
  set_binding(work, window, window.rkey, wanted.bind_info);
  posted(1);
  return 0;
}

void queue_pair::inject_faults(unsigned count) {
  for (unsigned i = 0; i < count; ++i) {
    auto& work = core.sends[core.sends.next_slot(i)];
    work.failed = injected_status(name_of(work.op));
  }
}

status queue_pair::injected_status(std::string_view operation) {
  using action = fault_rule::action;
  const auto fate = fault_plan::of_process().on_operation(origin_.name, operation);
  if (!fate.what) return status::success;
  if (fate.what == action::complete) return static_cast<status>(fate.status);
  if (fate.what == action::break_queue_pair) {
    raise_event(IBV_EVENT_QP_FATAL);
    return status::flushed;
  }
  context.place->outages().begin(*fate.what, fate.duration, fate.edition);
  return status::success;
}

void queue_pair::posted(unsigned count) noexcept {
  try {
    if (plan_looks_at_operations()) inject_faults(count);
  } catch (...) {
    break_for_lack_of_memory();
  }
  core.posted(count);
  if (attributes.qp_state == IBV_QPS_ERR || attributes.qp_state == IBV_QPS_SQE) return;
  try {
    keep_sending();
  } catch (...) {
    break_for_lack_of_memory();
  }
}

// --- packets ---------------------------------------------------------------------------------

transport::packet_sink* queue_pair::peer() {
  return connected != nullptr ? &out_.towards(*connected) : nullptr;
}

transport::packet_sink* queue_pair::datagram_path(const transport::path_ends& to,
                                                  std::uint32_t qpn) {
  const auto found = datagram_routes_.find(*context.place, where->qpn, to, qpn);
  return found != nullptr ? &out_.towards(*found) : nullptr;
}

bool queue_pair::is_from_peer(const inbound& packet) const {
  if (packet.source != ends.destination) return false;
  using path = inbound::path;
  // What comes through the RoCE port has the network's trust: none. So a neighbour, whom the
  // kernel vouches for, is never heard from that way, and another host in no other way.
  if (!connected->same_host) return packet.came == path::roce_port;
  if (packet.came == path::roce_port) return false;
  // Between processes of one host a sender is known by its port.
  return packet.came == path::in_process || packet.source_port == attributes.dest_qp_num >> 8;
}

void queue_pair::receive(const inbound& in) noexcept try {
  if (context.place->outages().port_is_down()) return;
  const auto& header = in.packet.header;
  ++received_.packets;
  received_.bytes += wire::packet_bytes(header, in.packet.payload.size());
  if (!is_datagram() && (connected == nullptr || !is_from_peer(in))) return;
  // A datagram's sender is who it says it is only if the kernel says so, too.
  const bool from_neighbour =
      in.came == inbound::path::in_process ||
      (in.came == inbound::path::same_host && in.source_port == header.source_qpn >> 8);
  core.receive({.packet = in.packet,
                .source = in.source,
                .destination = in.destination,
                .wants_flow_control = from_neighbour});
} catch (...) {
  break_for_lack_of_memory();
}

void queue_pair::answer() {
  if (core.answer()) deferred_work::add(where);
}

void queue_pair::after_receiving(bool called_by_user) noexcept try {
  context.place->traffic.add_received(std::exchange(received_, {}));
  const bool later =
      called_by_user && core.has_only_acknowledgement() && context.place->acknowledge_later(*where);
  if (!later) answer();
  keep_sending();
} catch (...) {
  break_for_lack_of_memory();
}

void queue_pair::send_acknowledgement() noexcept try { answer(); } catch (...) {
  break_for_lack_of_memory();
}

void queue_pair::keep_sending() {
  if (core.send()) deferred_work::add(where);
  const auto deadline = core.next_deadline();
  if (deadline != never) context.place->timers().set(*where, deadline);
}

void queue_pair::on_timer(time_point now) noexcept try {
  core.on_timer(now);
  answer();
  keep_sending();
} catch (...) {
  break_for_lack_of_memory();
}

void queue_pair::break_for_lack_of_memory() noexcept {
  log(log_level::error, "queue pair {:#x} breaks: there is no memory", where->qpn);
  if (attributes.qp_state == IBV_QPS_ERR || attributes.qp_state == IBV_QPS_RESET) return;
  raise_event(IBV_EVENT_QP_FATAL);
  try {
    core.fail();
  } catch (...) {
    set_state(IBV_QPS_ERR);
  }
}

// --- receive requests ------------------------------------------------------------------------

transport::front_end::taken queue_pair::take_receive(std::uint32_t xrc_srqn,
                                                     transport::receive_work& into) {
  bool found = false;
  if (made.type == IBV_QPT_XRC_RECV) {
    const bool known = srq_directory::of_process().with(
        made.domain, xrc_srqn, [&](shared_receive_queue& srq) { found = srq.take(into); });
    if (!known) return taken::no_such_queue;
  } else if (made.srq != nullptr) {
    found = made.srq->take(into);
  } else if (!receives.is_empty()) {
    receives.pop(into);
    into.domain = core.made.domain;
    found = true;
  }
  return found ? taken::request : taken::nothing;
}

transport::memory_domain queue_pair::domain_of_queue(std::uint32_t xrc_srqn) {
  transport::memory_domain found{};
  srq_directory::of_process().with(made.domain, xrc_srqn,
                                   [&](shared_receive_queue& srq) { found = domain_of(srq.pd); });
  return found;
}

// --- completions and events ------------------------------------------------------------------

bool queue_pair::push_completion(completion_queue& cq, const ibv_wc& wc, bool solicited) {
  if (cq.push(wc, solicited)) return true;
  // Nothing that follows can be trusted (11.6.3.2).
  if (attributes.qp_state != IBV_QPS_ERR) raise_event(IBV_EVENT_QP_FATAL);
  return false;
}

bool queue_pair::complete(const transport::send_work& work, status result) {
  if (result == status::success && !made.signal_all && !work.signaled) return true;
  if (made.send_cq == nullptr) return true;
  if (result != status::success && result != status::flushed) {
    log(log_level::info, "queue pair {:#x} towards {:#x}: send request {:#x} failed with status {}",
        where->qpn, attributes.dest_qp_num, work.id, static_cast<int>(result));
  }
  ibv_wc wc{};
  wc.wr_id = work.id;
  wc.status = status_of(result);
  wc.opcode = completion_opcode(work.op);
  wc.qp_num = where->qpn;
  if (work.is_read() || work.is_atomic()) wc.byte_len = static_cast<std::uint32_t>(work.bytes);
  return push_completion(*made.send_cq, wc, false);
}

bool queue_pair::complete(const transport::receive_completion& done) {
  // The completions of a shared receive queue of XRC go where that says.
  auto* cq = made.receive_cq;
  if (made.type == IBV_QPT_XRC_RECV) {
    if (done.result == status::flushed) return true;  // it is nobody's any more
    cq = static_cast<completion_queue*>(done.request.completes_to);
  }
  ibv_wc wc{};
  wc.wr_id = done.request.id;
  wc.status = status_of(done.result);
  wc.qp_num = where->qpn;
  wc.opcode = done.what == transport::receive_completion::kind::write_immediate
                  ? IBV_WC_RECV_RDMA_WITH_IMM
                  : IBV_WC_RECV;
  wc.byte_len = done.bytes;
  if (done.has_immediate) {
    wc.wc_flags = IBV_WC_WITH_IMM;
    wc.imm_data = done.immediate;
  }
  if (done.has_invalidated) {
    wc.wc_flags = IBV_WC_WITH_INV;
    wc.invalidated_rkey = done.invalidated_rkey;
  }
  if (done.has_grh) {
    wc.wc_flags |= IBV_WC_GRH;
    wc.src_qp = done.source_qpn;
    wc.sl = done.came_by_ipv4 ? udp_over_ipv4 : udp_over_ipv6;
  }
  if (done.result != status::flushed && wc.src_qp == 0) wc.src_qp = attributes.dest_qp_num;
  bool injected = false;
  if (done.result == status::success && plan_looks_at_operations()) {
    wc.status = status_of(injected_status("RECV"));
    injected = wc.status != IBV_WC_SUCCESS;
  }
  return push_completion(*cq, wc, done.solicited || injected) && !injected;
}

void queue_pair::raise(transport::event what) {
  using transport::event;
  switch (what) {
    case event::first_request:
      if (attributes.qp_state == IBV_QPS_RTR) raise_event(IBV_EVENT_COMM_EST);
      first_data_came(where->qpn);
      return;
    case event::request_error:
      raise_event(IBV_EVENT_QP_REQ_ERR);
      return;
    case event::access_error:
      raise_event(IBV_EVENT_QP_ACCESS_ERR);
      return;
    case event::fatal:
      raise_event(IBV_EVENT_QP_FATAL);
      return;
    case event::last_request_reached:
      raise_event(IBV_EVENT_QP_LAST_WQE_REACHED);
      return;
    case event::send_queue_drained:
      raise_event(IBV_EVENT_SQ_DRAINED);
      return;
  }
}

}  // namespace softverbs::engine
