// libFuzzer target: verbs in any order and with any numbers. Whatever they answer, nothing breaks,
// and in the end everything can be destroyed.
//
// The input is a sequence of steps: a byte chooses the verb, what follows are its arguments.
// Pointers are always good, as for every C interface; handles are those of objects that exist.

#include <algorithm>
#include <array>
#include <cerrno>
#include <vector>

#include <engine/queue_pair.hpp>
#include <fcntl.h>

#include "soft_device.hpp"

namespace {

using namespace softverbs;
using fuzz::require;

constexpr std::size_t arena_bytes = 16384;
constexpr std::size_t most_objects = 4;  // of each kind
constexpr int most_steps = 200;

std::array<std::uint8_t, arena_bytes>& arena() {
  alignas(4096) static std::array<std::uint8_t, arena_bytes> memory{};
  return memory;
}

class session {
 public:
  explicit session(fuzz::input in) : in_(in) {
    // Something to begin with, so that short inputs get far.
    pds_.push_back(verbs::alloc_pd(context_));
    cqs_.push_back(verbs::create_cq(context_, 16, nullptr, nullptr, 0));
    mrs_.push_back(verbs::reg_mr(pds_[0], arena().data(), arena_bytes, address(0), everything));
    require(pds_[0] != nullptr && cqs_[0] != nullptr && mrs_[0] != nullptr);
  }
  session(const session&) = delete;
  session& operator=(const session&) = delete;

  ~session() {
    acknowledge_asynchronous_events();
    destroy_all(qps_, verbs::destroy_qp);
    destroy_all(srqs_, verbs::destroy_srq);
    destroy_all(mws_, context_->ops.dealloc_mw);
    destroy_all(mrs_, verbs::dereg_mr);
    destroy_all(ahs_, verbs::destroy_ah);
    destroy_all(cqs_, verbs::destroy_cq);
    destroy_all(channels_, verbs::destroy_comp_channel);
    destroy_all(xrcds_, extensions_.close_xrcd);
    destroy_all(pds_, verbs::dealloc_pd);
    require(engine::device_context::of(context_).objects == 0);
  }

  void run() {
    for (int i = 0; i < most_steps && !in_.is_empty(); ++i) {
      (this->*steps[in_.below(steps.size())])();
    }
  }

 private:
  static constexpr unsigned everything = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |
                                         IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC |
                                         IBV_ACCESS_MW_BIND;

  // --- choosing ---

  [[nodiscard]] static std::uint64_t address(std::size_t offset) {
    return reinterpret_cast<std::uintptr_t>(arena().data()) + offset;
  }
  [[nodiscard]] std::uint64_t near_address() { return address(in_.number(2) % (arena_bytes + 64)); }

  template <class T>
  [[nodiscard]] T* any(const std::vector<T*>& of) {
    return of.empty() ? nullptr : of[in_.below(of.size())];
  }
  template <class T>
  [[nodiscard]] T* any_or_none(const std::vector<T*>& of) {
    return in_.byte() < 0x20 ? nullptr : any(of);
  }
  template <class T>
  void keep(std::vector<T*>& in, T* made) {
    if (made != nullptr) in.push_back(made);
  }
  template <class T>
  [[nodiscard]] static bool is_full(const std::vector<T*>& of) {
    return of.size() >= most_objects;
  }
  template <class T, class Destroy>
  void destroy_one(std::vector<T*>& of, Destroy destroy) {
    if (of.empty()) return;
    const auto chosen = of.begin() + static_cast<std::ptrdiff_t>(in_.below(of.size()));
    if (destroy(*chosen) == 0) of.erase(chosen);  // else it is in use and still there
  }
  template <class T, class Destroy>
  static void destroy_all(const std::vector<T*>& of, Destroy destroy) {
    for (auto* each : of) require(destroy(each) == 0);
  }

  [[nodiscard]] std::uint32_t any_key() {
    const auto choice = in_.byte();
    if (choice < 0xa0 && !mrs_.empty()) return mrs_[choice % mrs_.size()]->lkey;
    if (choice < 0xe0 && !mws_.empty()) return mws_[choice % mws_.size()]->rkey;
    return in_.hostile<std::uint32_t>();
  }

  /// Of a queue pair that exists, or of none; always one of this process: nothing is sent to
  /// others.
  [[nodiscard]] std::uint32_t any_qpn() {
    if (qps_.empty()) return 0xffff'ffff;
    const auto* const chosen = any(qps_);
    return in_.byte() < 0xe0 ? chosen->qp_num : (chosen->qp_num & ~0xffU) | in_.byte();
  }

  // --- protection domains, memory ---

  void alloc_pd() {
    if (!is_full(pds_)) keep(pds_, verbs::alloc_pd(context_));
  }
  void dealloc_pd() { destroy_one(pds_, verbs::dealloc_pd); }

  void reg_mr() {
    auto* const pd = any(pds_);
    if (pd == nullptr || is_full(mrs_)) return;
    const auto offset = in_.number(2) % arena_bytes;
    const auto bytes = in_.chance() ? arena_bytes - offset : in_.hostile();
    const auto iova = in_.chance() ? address(offset) : in_.hostile();
    const auto access = in_.chance() ? everything : in_.hostile<unsigned>();
    keep(mrs_, verbs::reg_mr(pd, arena().data() + offset, bytes, iova, access));
  }
  void rereg_mr() {
    auto* const mr = any(mrs_);
    if (mr == nullptr) return;
    const auto offset = in_.number(2) % arena_bytes;
    static_cast<void>(
        verbs::rereg_mr(mr, in_.hostile<int>(), any_or_none(pds_), arena().data() + offset,
                        in_.chance() ? arena_bytes - offset : in_.hostile(), in_.hostile<int>()));
  }
  void dereg_mr() { destroy_one(mrs_, verbs::dereg_mr); }

  void alloc_mw() {
    auto* const pd = any(pds_);
    if (pd == nullptr || is_full(mws_)) return;
    keep(mws_, context_->ops.alloc_mw(pd, static_cast<ibv_mw_type>(in_.byte() % 4)));
  }
  void dealloc_mw() { destroy_one(mws_, context_->ops.dealloc_mw); }

  [[nodiscard]] ibv_mw_bind_info any_binding() {
    return {.mr = any_or_none(mrs_),
            .addr = near_address(),
            .length = in_.hostile(),
            .mw_access_flags = in_.hostile<unsigned>()};
  }
  void bind_mw() {
    auto* const qp = any(qps_);
    auto* const mw = any(mws_);
    if (qp == nullptr || mw == nullptr) return;
    ibv_mw_bind wanted{};
    wanted.send_flags = in_.byte();
    wanted.bind_info = any_binding();
    static_cast<void>(context_->ops.bind_mw(qp, mw, &wanted));
  }

  // --- completions ---

  void create_channel() {
    if (is_full(channels_)) return;
    auto* const made = verbs::create_comp_channel(context_);
    require(made != nullptr);
    require(::fcntl(made->fd, F_SETFL, O_NONBLOCK) == 0);
    channels_.push_back(made);
  }
  void destroy_channel() { destroy_one(channels_, verbs::destroy_comp_channel); }

  void create_cq() {
    if (is_full(cqs_)) return;
    auto* const channel = any_or_none(channels_);
    if (in_.chance()) {
      const int vector = in_.chance() ? 0 : in_.hostile<int>();
      keep(cqs_, verbs::create_cq(context_, in_.hostile<int>(), nullptr, channel, vector));
      return;
    }
    ibv_cq_init_attr_ex wanted{};
    wanted.cqe = in_.hostile<std::uint32_t>();
    wanted.channel = channel;
    wanted.wc_flags = in_.chance() ? std::uint64_t{IBV_WC_STANDARD_FLAGS} : in_.hostile();
    wanted.comp_mask = in_.chance() ? 0 : in_.hostile<std::uint32_t>();
    auto* const made = extensions_.create_cq_ex(context_, &wanted);
    if (made != nullptr) cqs_.push_back(ibv_cq_ex_to_cq(made));
  }
  void destroy_cq() { destroy_one(cqs_, verbs::destroy_cq); }
  void resize_cq() {
    if (auto* const cq = any(cqs_)) static_cast<void>(verbs::resize_cq(cq, in_.hostile<int>()));
  }
  void poll_cq() {
    auto* const cq = any(cqs_);
    if (cq == nullptr) return;
    std::array<ibv_wc, 8> completions{};
    const int most = in_.chance() ? 8 : static_cast<int>(in_.byte() % 10) - 1;
    if (most > static_cast<int>(completions.size())) return;
    const int found = ibv_poll_cq(cq, most, completions.data());
    require(found <= std::max(most, 0));
    if (found > 0) newest_ = completions[0];
  }
  void poll_cq_extended() {
    auto* const cq = any(cqs_);
    if (cq == nullptr) return;
    auto* const extended = reinterpret_cast<ibv_cq_ex*>(cq);
    ibv_poll_cq_attr wanted{.comp_mask = in_.chance() ? 0 : in_.hostile<std::uint32_t>()};
    if (ibv_start_poll(extended, &wanted) != 0) return;
    for (auto left = in_.below(8); left > 0 && ibv_next_poll(extended) == 0; --left) {
      static_cast<void>(ibv_wc_read_opcode(extended));
      static_cast<void>(ibv_wc_read_completion_ts(extended));
    }
    ibv_end_poll(extended);
  }
  void notify_cq() {
    if (auto* const cq = any(cqs_)) static_cast<void>(ibv_req_notify_cq(cq, in_.chance() ? 1 : 0));
  }
  void take_cq_event() {
    auto* const channel = any(channels_);
    if (channel == nullptr) return;
    ibv_cq* cq = nullptr;
    void* user = nullptr;
    if (verbs::get_cq_event(channel, &cq, &user) != 0) return;
    require(std::ranges::find(cqs_, cq) != cqs_.end());
    verbs::ack_cq_events(cq, 1);
  }
  void acknowledge_asynchronous_events() {
    ibv_async_event event{};
    while (verbs::get_async_event(context_, &event) == 0) verbs::ack_async_event(&event);
  }

  // --- queues ---

  void create_srq() {
    auto* const pd = any(pds_);
    if (pd == nullptr || is_full(srqs_)) return;
    ibv_srq_init_attr_ex wanted{};
    wanted.attr = {.max_wr = in_.hostile<std::uint32_t>(),
                   .max_sge = in_.hostile<std::uint32_t>(),
                   .srq_limit = in_.hostile<std::uint32_t>()};
    wanted.pd = pd;
    wanted.xrcd = any_or_none(xrcds_);
    wanted.cq = any_or_none(cqs_);
    wanted.srq_type = static_cast<ibv_srq_type>(in_.byte() % 4);
    wanted.comp_mask = in_.chance() ? in_.hostile<std::uint32_t>()
                                    : IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD |
                                          IBV_SRQ_INIT_ATTR_XRCD | IBV_SRQ_INIT_ATTR_CQ;
    keep(srqs_, extensions_.create_srq_ex(context_, &wanted));
  }
  void destroy_srq() { destroy_one(srqs_, verbs::destroy_srq); }
  void modify_srq() {
    auto* const srq = any(srqs_);
    if (srq == nullptr) return;
    ibv_srq_attr wanted{.max_wr = in_.hostile<std::uint32_t>(),
                        .max_sge = 0,
                        .srq_limit = in_.hostile<std::uint32_t>()};
    static_cast<void>(verbs::modify_srq(srq, &wanted, in_.byte() % 5));
    require(verbs::query_srq(srq, &wanted) == 0);
  }

  void create_qp() {
    if (is_full(qps_)) return;
    constexpr std::array types{IBV_QPT_RC,       IBV_QPT_RC,       IBV_QPT_UC,        IBV_QPT_UD,
                               IBV_QPT_XRC_SEND, IBV_QPT_XRC_RECV, IBV_QPT_RAW_PACKET};
    ibv_qp_init_attr_ex wanted{};
    wanted.qp_type = types[in_.below(types.size())];
    wanted.pd = any_or_none(pds_);
    wanted.send_cq = any_or_none(cqs_);
    wanted.recv_cq = any_or_none(cqs_);
    wanted.srq = in_.chance() ? any(srqs_) : nullptr;
    wanted.xrcd = any_or_none(xrcds_);
    wanted.sq_sig_all = in_.byte() % 2;
    wanted.cap = {.max_send_wr = in_.hostile<std::uint32_t>(),
                  .max_recv_wr = in_.hostile<std::uint32_t>(),
                  .max_send_sge = in_.hostile<std::uint32_t>(),
                  .max_recv_sge = in_.hostile<std::uint32_t>(),
                  .max_inline_data = in_.hostile<std::uint32_t>()};
    wanted.comp_mask = in_.chance() ? in_.hostile<std::uint32_t>()
                                    : IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_XRCD |
                                          IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
    wanted.send_ops_flags = in_.chance() ? 0 : in_.hostile();
    keep(qps_, extensions_.create_qp_ex(context_, &wanted));
  }
  /// One with which something can be done.
  void create_good_qp() {
    auto* const pd = any(pds_);
    auto* const cq = any(cqs_);
    if (is_full(qps_) || pd == nullptr || cq == nullptr) return;
    constexpr std::array types{IBV_QPT_RC, IBV_QPT_UC, IBV_QPT_UD};
    ibv_qp_init_attr_ex wanted{};
    wanted.qp_type = types[in_.below(types.size())];
    wanted.pd = pd;
    wanted.send_cq = wanted.recv_cq = cq;
    wanted.srq = in_.chance() ? any(srqs_) : nullptr;
    wanted.cap = {.max_send_wr = 8,
                  .max_recv_wr = 8,
                  .max_send_sge = 4,
                  .max_recv_sge = 4,
                  .max_inline_data = 64};
    wanted.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
    wanted.send_ops_flags = IBV_QP_EX_WITH_SEND;
    keep(qps_, extensions_.create_qp_ex(context_, &wanted));
  }
  void destroy_qp() { destroy_one(qps_, verbs::destroy_qp); }

  [[nodiscard]] ibv_ah_attr any_path() {
    auto path = fuzz::path_to_itself();
    const auto choice = in_.byte();
    if (choice < 0xd0) return path;
    if ((choice & 1) != 0) path.grh.sgid_index = in_.byte();
    if ((choice & 2) != 0) path.port_num = in_.byte();
    if ((choice & 4) != 0) path.is_global = 0;
    return path;
  }

  void modify_qp() {
    auto* const qp = any(qps_);
    if (qp == nullptr) return;
    ibv_qp_attr wanted{};
    wanted.qp_state = static_cast<ibv_qp_state>(in_.byte() % 8);
    wanted.cur_qp_state = static_cast<ibv_qp_state>(in_.byte() % 8);
    wanted.path_mtu = static_cast<ibv_mtu>(in_.byte() % 7);
    wanted.qkey = in_.byte();
    wanted.rq_psn = in_.hostile<std::uint32_t>();
    wanted.sq_psn = in_.hostile<std::uint32_t>();
    wanted.dest_qp_num = any_qpn();
    wanted.qp_access_flags = in_.byte();
    wanted.ah_attr = any_path();
    wanted.port_num = in_.byte() % 3;
    wanted.max_rd_atomic = in_.byte();
    wanted.max_dest_rd_atomic = in_.byte();
    wanted.min_rnr_timer = in_.byte() % 33;
    wanted.timeout = in_.byte() % 33;
    wanted.retry_cnt = in_.byte() % 9;
    wanted.rnr_retry = in_.byte() % 9;
    static_cast<void>(verbs::modify_qp(qp, &wanted, in_.hostile<int>()));
    query(qp);
  }
  /// To the next state on the way to RTS, as it should be.
  void advance_qp() {
    auto* const qp = any(qps_);
    if (qp == nullptr) return;
    const bool datagrams = qp->qp_type == IBV_QPT_UD;
    const bool reliable = !datagrams && qp->qp_type != IBV_QPT_UC;
    ibv_qp_attr wanted{};
    wanted.port_num = 1;
    wanted.qkey = 7;
    wanted.qp_access_flags =
        IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC;
    wanted.path_mtu = IBV_MTU_256;
    wanted.dest_qp_num = any_qpn();
    wanted.ah_attr = fuzz::path_to_itself();
    wanted.rq_psn = wanted.sq_psn = 0xff'fffe;
    wanted.max_rd_atomic = wanted.max_dest_rd_atomic = 2;
    wanted.min_rnr_timer = 1;
    wanted.timeout = 1;
    wanted.retry_cnt = wanted.rnr_retry = 1;
    int mask = IBV_QP_STATE;
    switch (qp->state) {
      case IBV_QPS_RESET:
        wanted.qp_state = IBV_QPS_INIT;
        mask |= IBV_QP_PKEY_INDEX | IBV_QP_PORT | (datagrams ? IBV_QP_QKEY : IBV_QP_ACCESS_FLAGS);
        break;
      case IBV_QPS_INIT:
        wanted.qp_state = IBV_QPS_RTR;
        if (!datagrams) mask |= IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN;
        if (reliable && qp->qp_type != IBV_QPT_XRC_SEND) {
          mask |= IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
        }
        break;
      case IBV_QPS_RTR:
        wanted.qp_state = IBV_QPS_RTS;
        mask |= IBV_QP_SQ_PSN;
        if (reliable) mask |= IBV_QP_TIMEOUT;
        if (reliable && qp->qp_type != IBV_QPT_XRC_RECV) {
          mask |= IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC;
        }
        break;
      default:
        wanted.qp_state = qp->state == IBV_QPS_SQE ? IBV_QPS_RTS : IBV_QPS_RESET;
        break;
    }
    static_cast<void>(verbs::modify_qp(qp, &wanted, mask));
  }
  static void query(ibv_qp* qp) {
    ibv_qp_attr attributes{};
    ibv_qp_init_attr made{};
    require(verbs::query_qp(qp, &attributes, 0, &made) == 0);
    require(attributes.qp_state == qp->state || qp->state == IBV_QPS_ERR ||
            attributes.qp_state == IBV_QPS_ERR || attributes.qp_state == IBV_QPS_SQE);
  }

  // --- requests ---

  static constexpr std::size_t most_elements = 9;
  static constexpr std::size_t most_requests = 4;
  using elements = std::array<ibv_sge, most_elements>;

  /// Returns how many.
  [[nodiscard]] int fill(elements& into) {
    const auto choice = in_.byte();
    const auto count = choice % most_elements;
    for (std::size_t i = 0; i < count; ++i) {
      into[i] = {.addr = near_address(),
                 .length = in_.chance() ? std::uint32_t{in_.byte()} : in_.hostile<std::uint32_t>(),
                 .lkey = any_key()};
    }
    return choice >= 0xfc ? -1 : static_cast<int>(count);
  }

  template <class Post>
  void post_receives(Post post) {
    std::array<elements, most_requests> room{};
    std::array<ibv_recv_wr, most_requests> requests{};
    const auto count = in_.below(most_requests) + 1;
    for (std::size_t i = 0; i < count; ++i) {
      requests[i].sg_list = room[i].data();
      requests[i].num_sge = fill(room[i]);
      if (i > 0) requests[i - 1].next = &requests[i];
    }
    ibv_recv_wr* bad = nullptr;
    require(post(requests.data(), &bad) == 0 || bad != nullptr);
  }
  void post_recv() {
    auto* const qp = any(qps_);
    if (qp == nullptr) return;
    post_receives(
        [&](ibv_recv_wr* list, ibv_recv_wr** bad) { return ibv_post_recv(qp, list, bad); });
  }
  void post_srq_recv() {
    auto* const srq = any(srqs_);
    if (srq == nullptr) return;
    post_receives(
        [&](ibv_recv_wr* list, ibv_recv_wr** bad) { return ibv_post_srq_recv(srq, list, bad); });
  }

  void post_send() {
    auto* const qp = any(qps_);
    if (qp == nullptr) return;
    std::array<elements, most_requests> room{};
    std::array<ibv_send_wr, most_requests> requests{};
    const auto count = in_.below(most_requests) + 1;
    for (std::size_t i = 0; i < count; ++i) {
      auto& request = requests[i];
      request.opcode = static_cast<ibv_wr_opcode>(in_.byte() % 13);
      request.send_flags = in_.byte();
      request.sg_list = room[i].data();
      request.num_sge = fill(room[i]);
      // Inline data is copied by the processor, whose memory protection is not ours to test.
      if ((request.send_flags & IBV_SEND_INLINE) != 0) {
        for (auto& each : room[i]) {
          each.addr = address(0);
          each.length %= arena_bytes;
        }
      }
      if (!fill_remote(request, *qp)) return;
      if (i > 0) requests[i - 1].next = &request;
    }
    ibv_send_wr* bad = nullptr;
    require(ibv_post_send(qp, requests.data(), &bad) == 0 || bad != nullptr);
  }
  [[nodiscard]] bool fill_remote(ibv_send_wr& request, const ibv_qp& qp) {
    request.imm_data = any_key();  // also the key to invalidate
    if (request.opcode == IBV_WR_BIND_MW) {
      request.bind_mw.mw = any_or_none(mws_);
      request.bind_mw.rkey = request.bind_mw.mw != nullptr && in_.chance()
                                 ? ibv_inc_rkey(request.bind_mw.mw->rkey)
                                 : any_key();
      request.bind_mw.bind_info = any_binding();
      return true;
    }
    if (qp.qp_type == IBV_QPT_UD) {
      request.wr.ud.ah = any_or_none(ahs_);
      request.wr.ud.remote_qpn = any_qpn();
      request.wr.ud.remote_qkey = in_.byte();
      return true;
    }
    request.qp_type.xrc.remote_srqn = in_.byte();
    if (request.opcode == IBV_WR_ATOMIC_CMP_AND_SWP ||
        request.opcode == IBV_WR_ATOMIC_FETCH_AND_ADD) {
      request.wr.atomic.remote_addr = near_address();
      request.wr.atomic.rkey = any_key();
      return true;
    }
    request.wr.rdma.remote_addr = near_address();
    request.wr.rdma.rkey = any_key();
    return true;
  }

  void post_send_extended() {
    auto* const qp = any(qps_);
    auto* const extended = qp == nullptr ? nullptr : verbs::to_qp_ex(qp);
    if (extended == nullptr) return;
    elements room{};
    ibv_wr_start(extended);
    for (auto left = in_.below(most_requests) + 1; left > 0; --left) {
      extended->wr_flags = in_.byte();
      begin_extended(*extended);
      if (qp->qp_type == IBV_QPT_UD && !ahs_.empty()) {
        ibv_wr_set_ud_addr(extended, any(ahs_), any_qpn(), in_.byte());
      }
      if (in_.chance()) ibv_wr_set_xrc_srqn(extended, in_.byte());
      if (in_.chance()) {
        ibv_wr_set_inline_data(extended, arena().data(), in_.hostile() % arena_bytes);
      } else {
        const int count = fill(room);
        ibv_wr_set_sge_list(extended, static_cast<std::size_t>(std::max(count, 0)), room.data());
      }
    }
    if (in_.byte() < 0x20) {
      ibv_wr_abort(extended);
    } else {
      static_cast<void>(ibv_wr_complete(extended));
    }
  }
  void begin_extended(ibv_qp_ex& qp) {
    switch (in_.byte() % 10) {
      case 0:
        ibv_wr_send_imm(&qp, 1);
        break;
      case 1:
        ibv_wr_send_inv(&qp, any_key());
        break;
      case 2:
        ibv_wr_rdma_write(&qp, any_key(), near_address());
        break;
      case 3:
        ibv_wr_rdma_write_imm(&qp, any_key(), near_address(), 1);
        break;
      case 4:
        ibv_wr_rdma_read(&qp, any_key(), near_address());
        break;
      case 5:
        ibv_wr_atomic_cmp_swp(&qp, any_key(), near_address(), 1, 2);
        break;
      case 6:
        ibv_wr_atomic_fetch_add(&qp, any_key(), near_address(), 1);
        break;
      case 7:
        ibv_wr_local_inv(&qp, any_key());
        break;
      case 8:
        if (auto* const mw = any(mws_)) {
          const auto info = any_binding();
          ibv_wr_bind_mw(&qp, mw, any_key(), &info);
          break;
        }
        return;
      default:
        ibv_wr_send(&qp);
        break;
    }
  }

  // --- the rest ---

  void create_ah() {
    auto* const pd = any(pds_);
    if (pd == nullptr || is_full(ahs_)) return;
    auto path = any_path();
    keep(ahs_, verbs::create_ah(pd, &path));
  }
  void create_ah_from_completion() {
    ibv_grh header{};
    std::ranges::copy(in_.bytes(sizeof header), reinterpret_cast<std::uint8_t*>(&header));
    ibv_ah_attr path{};
    static_cast<void>(verbs::init_ah_from_wc(context_, in_.byte(), &newest_, &header, &path));
  }
  void destroy_ah() { destroy_one(ahs_, verbs::destroy_ah); }
  void open_xrcd() {
    if (is_full(xrcds_)) return;
    ibv_xrcd_init_attr wanted{};
    wanted.comp_mask = in_.byte() % 4;
    wanted.fd = in_.chance() ? -1 : in_.hostile<int>();
    keep(xrcds_, extensions_.open_xrcd(context_, &wanted));
  }
  void close_xrcd() { destroy_one(xrcds_, extensions_.close_xrcd); }

  using step = void (session::*)();
  static constexpr std::array steps{
      &session::alloc_pd,         &session::dealloc_pd,
      &session::reg_mr,           &session::rereg_mr,
      &session::dereg_mr,         &session::alloc_mw,
      &session::dealloc_mw,       &session::bind_mw,
      &session::create_channel,   &session::destroy_channel,
      &session::create_cq,        &session::destroy_cq,
      &session::resize_cq,        &session::poll_cq,
      &session::poll_cq_extended, &session::notify_cq,
      &session::take_cq_event,    &session::acknowledge_asynchronous_events,
      &session::create_srq,       &session::destroy_srq,
      &session::modify_srq,       &session::create_qp,
      &session::create_good_qp,   &session::destroy_qp,
      &session::modify_qp,        &session::advance_qp,
      &session::post_recv,        &session::post_srq_recv,
      &session::post_send,        &session::post_send_extended,
      &session::create_ah,        &session::create_ah_from_completion,
      &session::destroy_ah,       &session::open_xrcd,
      &session::close_xrcd};

  fuzz::input in_;
  ibv_context* context_ = fuzz::soft_device();
  verbs_context& extensions_ = *verbs_get_ctx(context_);
  ibv_wc newest_{};
  std::vector<ibv_pd*> pds_;
  std::vector<ibv_mr*> mrs_;
  std::vector<ibv_mw*> mws_;
  std::vector<ibv_comp_channel*> channels_;
  std::vector<ibv_cq*> cqs_;
  std::vector<ibv_srq*> srqs_;
  std::vector<ibv_qp*> qps_;
  std::vector<ibv_ah*> ahs_;
  std::vector<ibv_xrcd*> xrcds_;
};

}  // namespace

// NOLINTNEXTLINE(readability-identifier-naming): libFuzzer's
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  session(fuzz::input(std::span(data, size))).run();
  return 0;
}
