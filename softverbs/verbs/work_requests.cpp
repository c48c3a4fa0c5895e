// The extended posting interface: ibv_wr_start … ibv_wr_complete. Requests are built in the send
// queue itself, behind the newest, while the queue pair is locked, and become visible together.
#include <cerrno>

#include <base/lock_order.hpp>
#include <base/undo.hpp>
#include <engine/queue_pair.hpp>
#include <engine/verbs_requests.hpp>
#include <verbs/objects.hpp>

namespace softverbs::verbs {
namespace {

using engine::queue_pair;
using transport::send_work;

queue_pair& of(ibv_qp_ex* qp) { return queue_pair::of(qp); }

void note(queue_pair& qp, int failure) {
  if (qp.building_failure == 0) qp.building_failure = failure;
}

std::uint64_t newest_index(queue_pair& qp) { return qp.core.sends.next_slot(qp.building - 1); }

/// The newest request under construction; null after a failure.
send_work* newest(queue_pair& qp) {
  if (qp.building == 0 || qp.building_failure != 0) return nullptr;
  return &qp.core.sends[newest_index(qp)];
}

/// Nothing more is said about the newest request.
void finish_newest(queue_pair& qp) {
  if (auto* const work = newest(qp)) note(qp, engine::finish(qp.core.made.kind, *work));
}

/// A new request with the id and the flags that the user has set; null if there is no room.
send_work* begin(ibv_qp_ex* user, ibv_wr_opcode opcode) {
  auto& qp = of(user);
  finish_newest(qp);
  if (qp.building_failure != 0) return nullptr;
  if (!qp.core.sends.has_slot(qp.building)) {
    note(qp, ENOMEM);
    return nullptr;
  }
  auto& work = qp.core.sends[qp.core.sends.next_slot(qp.building)];
  note(qp, engine::begin(work, user->wr_id, opcode, user->wr_flags));
  ++qp.building;
  return newest(qp);
}

void begin_remote(ibv_qp_ex* qp, ibv_wr_opcode opcode, std::uint32_t rkey, std::uint64_t address,
                  std::uint32_t immediate = 0) {
  auto* const work = begin(qp, opcode);
  if (work == nullptr) return;
  engine::set_remote(*work, address, rkey);
  work->immediate = immediate;
}

void begin_atomic(ibv_qp_ex* qp, ibv_wr_opcode opcode, std::uint32_t rkey, std::uint64_t address,
                  std::uint64_t compare_or_add, std::uint64_t swap) {
  auto* const work = begin(qp, opcode);
  if (work == nullptr) return;
  engine::set_remote(*work, address, rkey);
  work->compare_or_add = compare_or_add;
  work->swap = swap;
}

void begin_send(ibv_qp_ex* qp, ibv_wr_opcode opcode, std::uint32_t immediate = 0) {
  auto* const work = begin(qp, opcode);
  if (work != nullptr) work->immediate = immediate;
}

void bind(ibv_qp_ex* qp, ibv_mw* mw, std::uint32_t rkey, const ibv_mw_bind_info* info) {
  auto* const work = begin(qp, IBV_WR_BIND_MW);
  if (work != nullptr) note(of(qp), engine::set_binding(*work, mw, rkey, *info));
}

void set_elements(ibv_qp_ex* user, std::size_t count, const ibv_sge* list) {
  auto& qp = of(user);
  if (newest(qp) != nullptr)
    note(qp, engine::set_elements(qp.core.sends, newest_index(qp), {list, count}));
}

void set_inline(ibv_qp_ex* user, std::size_t count, const ibv_data_buf* list) {
  auto& qp = of(user);
  if (newest(qp) != nullptr)
    note(qp, engine::set_inline_data(qp.core.sends, newest_index(qp), {list, count}));
}

/// From ibv_wr_start on the user's thread has the queue pair for itself. It may still poll, and use
/// other queue pairs: what that brings for this one waits.
void open(queue_pair& qp) {
  lock_for_user(qp.where->mutex);
  engine::deferred_work::hold();
}
void close(queue_pair& qp) {
  engine::deferred_work::release();
  unlock_for_user(qp.where->mutex);
}

void start(ibv_qp_ex* user) {
  auto& qp = of(user);
  open(qp);
  qp.building = 0;
  qp.building_failure = without_exceptions([&] { return qp.context.refuses("ibv_post_send"); });
  if (qp.building_failure == 0) qp.building_failure = qp.may_post_send();
}

int complete(ibv_qp_ex* user) {
  auto& qp = of(user);
  const engine::entry_scope entry;
  const undo opened([&] { close(qp); });
  finish_newest(qp);
  if (qp.building_failure == 0 && qp.building != 0) qp.posted(qp.building);
  return qp.building_failure;
}

}  // namespace

void set_work_request_functions(ibv_qp_ex& qp) {
  qp.wr_atomic_cmp_swp = [](ibv_qp_ex* user, std::uint32_t rkey, std::uint64_t address,
                            std::uint64_t compare, std::uint64_t swap) {
    begin_atomic(user, IBV_WR_ATOMIC_CMP_AND_SWP, rkey, address, compare, swap);
  };
  qp.wr_atomic_fetch_add = [](ibv_qp_ex* user, std::uint32_t rkey, std::uint64_t address,
                              std::uint64_t add) {
    begin_atomic(user, IBV_WR_ATOMIC_FETCH_AND_ADD, rkey, address, add, 0);
  };
  qp.wr_bind_mw = bind;
  qp.wr_local_inv = [](ibv_qp_ex* user, std::uint32_t rkey) {
    begin_send(user, IBV_WR_LOCAL_INV, rkey);
  };
  qp.wr_rdma_read = [](ibv_qp_ex* user, std::uint32_t rkey, std::uint64_t address) {
    begin_remote(user, IBV_WR_RDMA_READ, rkey, address);
  };
  qp.wr_rdma_write = [](ibv_qp_ex* user, std::uint32_t rkey, std::uint64_t address) {
    begin_remote(user, IBV_WR_RDMA_WRITE, rkey, address);
  };
  qp.wr_rdma_write_imm = [](ibv_qp_ex* user, std::uint32_t rkey, std::uint64_t address,
                            __be32 immediate) {
    begin_remote(user, IBV_WR_RDMA_WRITE_WITH_IMM, rkey, address, immediate);
  };
  qp.wr_send = [](ibv_qp_ex* user) { begin_send(user, IBV_WR_SEND); };
  qp.wr_send_imm = [](ibv_qp_ex* user, __be32 immediate) {
    begin_send(user, IBV_WR_SEND_WITH_IMM, immediate);
  };
  qp.wr_send_inv = [](ibv_qp_ex* user, std::uint32_t rkey) {
    begin_send(user, IBV_WR_SEND_WITH_INV, rkey);
  };
  qp.wr_set_ud_addr = [](ibv_qp_ex* user, ibv_ah* ah, std::uint32_t qpn, std::uint32_t qkey) {
    auto* const work = newest(of(user));
    if (work != nullptr) engine::set_destination(*work, ah, qpn, qkey);
  };
  qp.wr_set_xrc_srqn = [](ibv_qp_ex* user, std::uint32_t number) {
    auto* const work = newest(of(user));
    if (work != nullptr) work->xrc_srqn = number;
  };
  qp.wr_set_inline_data = [](ibv_qp_ex* user, void* address, std::size_t bytes) {
    const ibv_data_buf one{.addr = address, .length = bytes};
    set_inline(user, 1, &one);
  };
  qp.wr_set_inline_data_list = set_inline;
  qp.wr_set_sge = [](ibv_qp_ex* user, std::uint32_t lkey, std::uint64_t address,
                     std::uint32_t bytes) {
    const ibv_sge one{.addr = address, .length = bytes, .lkey = lkey};
    set_elements(user, 1, &one);
  };
  qp.wr_set_sge_list = set_elements;
  qp.wr_start = start;
  qp.wr_complete = c_function<complete>;
  qp.wr_abort = [](ibv_qp_ex* user) {
    const engine::entry_scope entry;
    close(of(user));
  };
}

}  // namespace softverbs::verbs
