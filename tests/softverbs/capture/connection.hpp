// Two queue pairs of this process that are connected with each other, for programs whose packets
// are recorded. Whatever fails ends the program with a message.
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <utility>
#include <vector>

#include <fcntl.h>
#include <infiniband/verbs.h>

inline void need(bool condition, const char* what) {
  if (condition) return;
  static_cast<void>(std::fprintf(stderr, "%s failed: %s\n", what, std::strerror(errno)));
  std::exit(1);
}

template <class T>
[[nodiscard]] T* need(T* made, const char* what) {
  need(made != nullptr, what);
  return made;
}

/// An opened device with a source and a target of messages. Neither is ever closed: the process
/// ends.
struct machine {
  static constexpr std::size_t area = std::size_t{16} * 1024;
  static constexpr int everything = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |
                                    IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC |
                                    IBV_ACCESS_MW_BIND;

  explicit machine(const char* name, std::uint8_t index) : gid_index(index) {
    int count = 0;
    auto** const list = need(ibv_get_device_list(&count), "ibv_get_device_list");
    for (int i = 0; i < count; ++i) {
      if (std::strcmp(ibv_get_device_name(list[i]), name) == 0) context = ibv_open_device(list[i]);
    }
    need(context != nullptr, "opening the device");
    ibv_free_device_list(list);
    pd = need(ibv_alloc_pd(context), "ibv_alloc_pd");
    need(ibv_query_gid(context, 1, gid_index, &gid) == 0, "ibv_query_gid");
    for (std::size_t i = 0; i < area; ++i) source[i] = static_cast<std::uint8_t>(0x30 + 7 * i);
    source_region = need(ibv_reg_mr(pd, source.data(), area, everything), "ibv_reg_mr");
    target_region = need(ibv_reg_mr(pd, target.data(), area, everything), "ibv_reg_mr");
  }

  ibv_context* context = nullptr;
  ibv_pd* pd = nullptr;
  std::uint8_t gid_index;
  ibv_gid gid{};
  std::vector<std::uint8_t> source = std::vector<std::uint8_t>(area);
  std::vector<std::uint8_t> target = std::vector<std::uint8_t>(area);
  ibv_mr* source_region = nullptr;
  ibv_mr* target_region = nullptr;
};

/// How a connection differs from the usual one.
struct terms {
  std::uint8_t rnr_retry = 7;
  std::uint8_t reads_at_once = 4;
};

class connection {
 public:
  static constexpr std::uint32_t first_psn = 0x111111;
  static constexpr std::uint32_t qkey = 0x11111111;

  connection(machine& on, ibv_qp_type type, terms agreed = {})
      : on_(on),
        type_(type),
        cq_(need(ibv_create_cq(on.context, 256, nullptr, nullptr, 0), "ibv_create_cq")) {
    if (type == IBV_QPT_XRC_SEND) make_shared_queue();
    from_ = create(type);
    to_ = create(type == IBV_QPT_XRC_SEND ? IBV_QPT_XRC_RECV : type);
    connect(*to_, *from_, agreed);
    connect(*from_, *to_, agreed);
  }

  [[nodiscard]] ibv_qp* sender() const { return from_; }
  [[nodiscard]] ibv_qp* receiver() const { return to_; }
  [[nodiscard]] std::uint32_t shared_number() const { return shared_number_; }

  void post_receive(std::uint32_t bytes, std::uint32_t lkey) {
    ibv_sge element{.addr = address(on_.target), .length = bytes, .lkey = lkey};
    ibv_recv_wr request{};
    request.sg_list = &element;
    request.num_sge = 1;
    ibv_recv_wr* bad = nullptr;
    need((shared_ != nullptr ? ibv_post_srq_recv(shared_, &request, &bad)
                             : ibv_post_recv(to_, &request, &bad)) == 0,
         "posting a receive request");
  }
  void post_receive() {
    post_receive(static_cast<std::uint32_t>(machine::area), on_.target_region->lkey);
  }

  /// Of the first `bytes` of the source, or into them.
  void post(ibv_send_wr request, std::uint32_t bytes) {
    ibv_sge element{.addr = address(on_.source), .length = bytes, .lkey = on_.source_region->lkey};
    request.wr_id = sending;
    request.sg_list = &element;
    request.num_sge = bytes == 0 ? 0 : 1;
    request.send_flags |= IBV_SEND_SIGNALED;
    if (shared_ != nullptr) request.qp_type.xrc.remote_srqn = shared_number_;
    ibv_send_wr* bad = nullptr;
    need(ibv_post_send(from_, &request, &bad) == 0, "ibv_post_send");
  }

  /// The next completion; nothing if none comes in time.
  [[nodiscard]] std::optional<ibv_wc> poll(std::chrono::milliseconds patience) {
    const auto until = std::chrono::steady_clock::now() + patience;
    do {
      ibv_wc completion{};
      const int found = ibv_poll_cq(cq_, 1, &completion);
      need(found >= 0, "ibv_poll_cq");
      if (found == 1) return completion;
    } while (std::chrono::steady_clock::now() < until);
    return {};
  }

  /// Waits for the completion of the request, and of a receive request if there is one; the
  /// request's has to have this status.
  void finish(ibv_wc_status expected, bool with_receive) {
    bool sent = false;
    bool received = !with_receive;
    while (!sent || !received) {
      const auto completion = poll(std::chrono::seconds(20));
      need(completion.has_value(), "waiting for a completion");
      if (completion->wr_id != sending) {
        received = true;
      } else {
        sent = true;
        if (completion->status != expected) {
          static_cast<void>(std::fprintf(stderr, "a request ended with %s instead of %s\n",
                                         ibv_wc_status_str(completion->status),
                                         ibv_wc_status_str(expected)));
          std::exit(1);
        }
      }
    }
  }

 private:
  static constexpr std::uint64_t sending = 1;

  [[nodiscard]] static std::uint64_t address(const std::vector<std::uint8_t>& bytes) {
    return reinterpret_cast<std::uintptr_t>(bytes.data());
  }

  void make_shared_queue() {
    ibv_xrcd_init_attr wanted_domain{};
    wanted_domain.comp_mask = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS;
    wanted_domain.fd = -1;
    wanted_domain.oflags = O_CREAT;
    domain_ = need(ibv_open_xrcd(on_.context, &wanted_domain), "ibv_open_xrcd");
    ibv_srq_init_attr_ex wanted{};
    wanted.attr.max_wr = 16;
    wanted.attr.max_sge = 1;
    wanted.comp_mask = IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_XRCD | IBV_SRQ_INIT_ATTR_CQ |
                       IBV_SRQ_INIT_ATTR_PD;
    wanted.srq_type = IBV_SRQT_XRC;
    wanted.xrcd = domain_;
    wanted.cq = cq_;
    wanted.pd = on_.pd;
    shared_ = need(ibv_create_srq_ex(on_.context, &wanted), "ibv_create_srq_ex");
    need(ibv_get_srq_num(shared_, &shared_number_) == 0, "ibv_get_srq_num");
  }

  [[nodiscard]] ibv_qp* create(ibv_qp_type type) {
    ibv_qp_init_attr_ex wanted{};
    wanted.send_cq = cq_;
    wanted.recv_cq = cq_;
    wanted.cap = {.max_send_wr = 64,
                  .max_recv_wr = 64,
                  .max_send_sge = 1,
                  .max_recv_sge = 1,
                  .max_inline_data = 0};
    wanted.qp_type = type;
    wanted.pd = on_.pd;
    wanted.xrcd = domain_;
    wanted.comp_mask = type == IBV_QPT_XRC_RECV ? IBV_QP_INIT_ATTR_XRCD : IBV_QP_INIT_ATTR_PD;
    return need(ibv_create_qp_ex(on_.context, &wanted), "ibv_create_qp_ex");
  }

  void connect(ibv_qp& own, const ibv_qp& other, terms agreed) {
    const bool datagrams = type_ == IBV_QPT_UD;
    const bool reliable = !datagrams && type_ != IBV_QPT_UC;
    ibv_qp_attr wanted{};
    wanted.qp_state = IBV_QPS_INIT;
    wanted.port_num = 1;
    wanted.qkey = qkey;
    wanted.qp_access_flags =
        IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC;
    modify(own, wanted,
           IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT |
               (datagrams ? IBV_QP_QKEY : IBV_QP_ACCESS_FLAGS));

    wanted.qp_state = IBV_QPS_RTR;
    wanted.path_mtu = IBV_MTU_1024;
    wanted.dest_qp_num = other.qp_num;
    wanted.rq_psn = first_psn;
    wanted.max_dest_rd_atomic = agreed.reads_at_once;
    wanted.min_rnr_timer = 12;
    wanted.ah_attr = path();
    int mask = IBV_QP_STATE;
    if (!datagrams) mask |= IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN;
    if (reliable && own.qp_type != IBV_QPT_XRC_SEND) {
      mask |= IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
    }
    modify(own, wanted, mask);

    wanted.qp_state = IBV_QPS_RTS;
    wanted.sq_psn = first_psn;
    wanted.timeout = 14;
    wanted.retry_cnt = 7;
    wanted.rnr_retry = agreed.rnr_retry;
    wanted.max_rd_atomic = 4;
    mask = IBV_QP_STATE | IBV_QP_SQ_PSN;
    if (reliable) mask |= IBV_QP_TIMEOUT;
    if (reliable && own.qp_type != IBV_QPT_XRC_RECV) {
      mask |= IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC;
    }
    modify(own, wanted, mask);
  }

 public:
  [[nodiscard]] ibv_ah_attr path() const {
    ibv_ah_attr result{};
    result.is_global = 1;
    result.port_num = 1;
    result.grh.dgid = on_.gid;
    result.grh.sgid_index = on_.gid_index;
    result.grh.hop_limit = 64;
    return result;
  }

 private:
  static void modify(ibv_qp& qp, ibv_qp_attr wanted, int mask) {
    const int failure = ibv_modify_qp(&qp, &wanted, mask);
    errno = failure;
    need(failure == 0, "ibv_modify_qp");
  }

  machine& on_;
  ibv_qp_type type_;
  ibv_cq* cq_;
  ibv_xrcd* domain_ = nullptr;
  ibv_srq* shared_ = nullptr;
  std::uint32_t shared_number_ = 0;
  ibv_qp* from_ = nullptr;
  ibv_qp* to_ = nullptr;
};
