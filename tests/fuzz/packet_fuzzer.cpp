// libFuzzer target: a queue pair in RTS receives invalid packets. Only granted memory is written,
// and no more requests complete than were posted.
//
// The input: a byte for the kind of queue pair, one for what is posted, then packets. Each has a
// byte that says how it is made plausible (see `repair`), a byte for its length, and its bytes.

#include <algorithm>
#include <array>
#include <cstring>
#include <mutex>
#include <vector>

#include <engine/endpoint.hpp>
#include <engine/queue_pair.hpp>
#include <wire/big_endian.hpp>
#include <wire/packet.hpp>

#include "soft_device.hpp"

namespace {

using namespace softverbs;
using engine::queue_pair;
using fuzz::require;

constexpr std::size_t area_bytes = 4096;
constexpr std::uint8_t untouched = 0xa5;
constexpr std::uint32_t first_psn = 0xff'fffe;  // wraps around soon
constexpr std::uint32_t qkey = 0x1234;
constexpr int most_packets = 32;

/// Memory in a row: what a peer may write lies between what it may not.
struct arena {
  alignas(4096) std::array<std::uint8_t, area_bytes> before{};
  std::array<std::uint8_t, area_bytes> granted{};
  std::array<std::uint8_t, area_bytes> readable{};
  std::array<std::uint8_t, area_bytes> after{};

  void reset() {
    for (auto* const area : {&before, &granted, &readable, &after}) area->fill(untouched);
  }
  [[nodiscard]] bool is_intact() const {
    static const auto pattern = [] {
      std::array<std::uint8_t, area_bytes> filled{};
      filled.fill(untouched);
      return filled;
    }();
    return std::ranges::all_of(std::array{&before, &readable, &after}, [](const auto* area) {
      return std::memcmp(area->data(), pattern.data(), area_bytes) == 0;
    });
  }
};

arena& memory() {
  static arena only;
  return only;
}

std::uint64_t address_of(const std::array<std::uint8_t, area_bytes>& area) {
  return reinterpret_cast<std::uintptr_t>(area.data());
}

/// Lives as long as the process.
struct surroundings {
  ibv_pd* pd = verbs::alloc_pd(fuzz::soft_device());
  ibv_mr* granted = verbs::reg_mr(pd, memory().granted.data(), area_bytes,
                                  address_of(memory().granted), everything);
  ibv_mr* readable = verbs::reg_mr(pd, memory().readable.data(), area_bytes,
                                   address_of(memory().readable), IBV_ACCESS_REMOTE_READ);

  static constexpr unsigned everything = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |
                                         IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC;
};

surroundings& around() {
  static surroundings only;
  return only;
}

class target {
 public:
  explicit target(ibv_qp_type type)
      : type_(type), cq_(verbs::create_cq(fuzz::soft_device(), 64, nullptr, nullptr, 0)) {
    require(cq_ != nullptr);
    if (type == IBV_QPT_XRC_RECV) make_shared_queue();
    // A peer that does not answer: it never leaves INIT.
    peer_ = create(type == IBV_QPT_XRC_RECV ? IBV_QPT_XRC_SEND : type);
    own_ = create(type);
    to_init(peer_);
    to_init(own_);
    to_rts();
  }

  /// As new, with some requests. Much faster than a new one, and as good here.
  void begin(std::uint8_t requests) {
    auto& qp = queue_pair::of(own_);
    {
      const std::lock_guard lock(qp.where->mutex);
      qp.receives.clear();
      qp.attributes.qp_state = qp.qp_base.state = IBV_QPS_RTS;
      using transport::state;
      for (const auto next : {state::reset, state::init, state::rtr, state::rts})
        qp.core.enter(next, first_psn);
    }
    if (shared_ == nullptr) posted_ = 0;  // else they wait in the shared queue
    for (int i = 0; i < (requests & 7); ++i) post_receive();
    if (type_ != IBV_QPT_XRC_RECV) post_requests(requests >> 3);
  }

  void end() {
    std::array<ibv_wc, 64> completions{};
    const int found = ibv_poll_cq(cq_, completions.size(), completions.data());
    require(found >= 0 && static_cast<unsigned>(found) <= posted_);
    posted_ -= static_cast<unsigned>(found);
    ibv_async_event event{};
    while (verbs::get_async_event(fuzz::soft_device(), &event) == 0) {
      verbs::ack_async_event(&event);
    }
  }

  void receive(fuzz::input& in) {
    const auto how = in.byte();
    const auto raw = in.bytes(in.byte());
    std::vector<std::uint8_t> datagram(raw.begin(), raw.end());
    repair(datagram, how);
    const auto packet = wire::decode(std::as_bytes(std::span(datagram)));
    if (!packet) return;
    auto& qp = queue_pair::of(own_);
    {
      const std::lock_guard lock(qp.where->mutex);
      qp.receive({.packet = *packet,
                  .source = qp.ends.destination,
                  .destination = qp.ends.source,
                  .source_port = static_cast<std::uint16_t>(peer_->qp_num >> 8),
                  .came = engine::inbound::path::same_host});
      if ((how & train_goes_on) == 0) qp.after_receiving(false);
    }
    if ((how & train_goes_on) == 0) engine::deferred_work::run();
  }

 private:
  // Bits of a packet's first byte.
  static constexpr std::uint8_t right_header = 1;  // service, version, partition
  static constexpr std::uint8_t right_psn = 2;     // or nearly, by the two bits below
  static constexpr std::uint8_t right_remote = 4;  // a key and an address near the granted memory
  static constexpr std::uint8_t full_payload = 8;  // as long as the path takes
  static constexpr std::uint8_t answer_psn = 16;   // counted from what was sent
  static constexpr std::uint8_t train_goes_on = 32;

  [[nodiscard]] static verbs_context& extensions() { return *verbs_get_ctx(fuzz::soft_device()); }

  void make_shared_queue() {
    ibv_xrcd_init_attr any{};
    domain_ = extensions().open_xrcd(fuzz::soft_device(), &any);
    ibv_srq_init_attr_ex wanted{};
    wanted.attr = {.max_wr = 8, .max_sge = 1, .srq_limit = 0};
    wanted.comp_mask = IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_XRCD | IBV_SRQ_INIT_ATTR_CQ |
                       IBV_SRQ_INIT_ATTR_PD;
    wanted.srq_type = IBV_SRQT_XRC;
    wanted.xrcd = domain_;
    wanted.cq = cq_;
    wanted.pd = around().pd;
    shared_ = extensions().create_srq_ex(fuzz::soft_device(), &wanted);
    require(domain_ != nullptr && shared_ != nullptr);
    require(extensions().get_srq_num(shared_, &shared_number_) == 0);
  }

  [[nodiscard]] ibv_qp* create(ibv_qp_type type) {
    ibv_qp_init_attr_ex wanted{};
    wanted.send_cq = wanted.recv_cq = cq_;
    wanted.cap = {.max_send_wr = 8,
                  .max_recv_wr = 8,
                  .max_send_sge = 1,
                  .max_recv_sge = 1,
                  .max_inline_data = 0};
    wanted.qp_type = type;
    wanted.pd = around().pd;
    wanted.xrcd = domain_;
    wanted.comp_mask = type == IBV_QPT_XRC_RECV ? IBV_QP_INIT_ATTR_XRCD : IBV_QP_INIT_ATTR_PD;
    auto* const qp = extensions().create_qp_ex(fuzz::soft_device(), &wanted);
    require(qp != nullptr);
    return qp;
  }

  void to_init(ibv_qp* qp) const {
    ibv_qp_attr wanted{};
    wanted.qp_state = IBV_QPS_INIT;
    wanted.port_num = 1;
    wanted.qkey = qkey;
    wanted.qp_access_flags =
        IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC;
    const int mask = IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT |
                     (type_ == IBV_QPT_UD ? IBV_QP_QKEY : IBV_QP_ACCESS_FLAGS);
    require(verbs::modify_qp(qp, &wanted, mask) == 0);
  }

  void to_rts() {
    const bool reliable = type_ == IBV_QPT_RC || type_ == IBV_QPT_XRC_RECV;
    ibv_qp_attr wanted{};
    wanted.qp_state = IBV_QPS_RTR;
    wanted.ah_attr = fuzz::path_to_itself();
    wanted.path_mtu = IBV_MTU_256;
    wanted.dest_qp_num = peer_->qp_num;
    wanted.rq_psn = first_psn;
    wanted.max_dest_rd_atomic = 4;
    int mask = IBV_QP_STATE;
    if (type_ != IBV_QPT_UD) mask |= IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN;
    if (reliable) mask |= IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
    require(verbs::modify_qp(own_, &wanted, mask) == 0);

    wanted.qp_state = IBV_QPS_RTS;
    wanted.sq_psn = first_psn;
    wanted.retry_cnt = wanted.rnr_retry = 3;
    wanted.max_rd_atomic = 4;
    wanted.timeout = 0;  // never: the same input always gives the same
    mask = IBV_QP_STATE | IBV_QP_SQ_PSN;
    if (reliable) mask |= IBV_QP_TIMEOUT;
    if (type_ == IBV_QPT_RC) mask |= IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC;
    require(verbs::modify_qp(own_, &wanted, mask) == 0);
  }

  void post_receive() {
    ibv_sge element{
        .addr = address_of(memory().granted) + 64, .length = 700, .lkey = around().granted->lkey};
    ibv_recv_wr request{};
    request.sg_list = &element;
    request.num_sge = 1;
    ibv_recv_wr* bad = nullptr;
    const int failure = shared_ != nullptr ? ibv_post_srq_recv(shared_, &request, &bad)
                                           : ibv_post_recv(own_, &request, &bad);
    require(failure == 0 || shared_ != nullptr);
    if (failure == 0) ++posted_;
  }

  /// One for each of the bits: a SEND, a WRITE, a READ, an atomic, and a long READ.
  void post_requests(unsigned which) {
    constexpr std::array opcodes{IBV_WR_SEND, IBV_WR_RDMA_WRITE, IBV_WR_RDMA_READ,
                                 IBV_WR_ATOMIC_FETCH_AND_ADD, IBV_WR_RDMA_READ};
    for (std::size_t i = 0; i < opcodes.size(); ++i) {
      if ((which >> i & 1U) == 0) continue;
      ibv_sge element{.addr = address_of(memory().granted) + 1024,
                      .length = i == 4 ? 1000U : 300U,
                      .lkey = around().granted->lkey};
      ibv_send_wr request{};
      request.opcode = opcodes[i];
      request.send_flags = IBV_SEND_SIGNALED;
      request.sg_list = &element;
      request.num_sge = 1;
      ibv_send_wr* bad = nullptr;
      // Datagrams have no address here; an unreliable connection does not read.
      if (type_ == IBV_QPT_UD || (type_ == IBV_QPT_UC && i > 1)) continue;
      require(ibv_post_send(own_, &request, &bad) == 0);
      ++posted_;
    }
  }

  void repair(std::vector<std::uint8_t>& datagram, std::uint8_t how) {
    auto& qp = queue_pair::of(own_);
    auto* const bytes = [&] {
      if (datagram.size() < wire::bth_bytes) datagram.resize(wire::bth_bytes);
      return reinterpret_cast<std::byte*>(datagram.data());
    }();
    if ((how & right_header) != 0) {
      datagram[0] = static_cast<std::uint8_t>(
          (datagram[0] & 0x1f) | static_cast<unsigned>(transport::on_the_wire(qp.core.made.kind)));
      datagram[1] &= 0xf0;
      datagram[2] = datagram[3] = 0xff;
    }
    if ((how & right_psn) != 0) {
      const auto near = static_cast<std::uint32_t>(how >> 6);  // 0 or 1 before, or after
      const auto base = (how & answer_psn) != 0 ? qp.core.next_psn() - 1 : qp.core.expected_psn();
      wire::store_big(bytes + 8, (datagram[8] & 0x80U) << 24 |
                                     ((near == 3 ? base + 1 : base - near) & wire::psn_mask));
    }
    const auto service = static_cast<wire::transport>(datagram[0] & 0xe0);
    const auto op = static_cast<wire::operation>(datagram[0] & 0x1f);
    if (!wire::is_defined(service, op)) return;
    const auto headers = wire::header_bytes(service, op);
    if ((how & full_payload) != 0) {
      datagram.resize(headers + qp.core.agreed.mtu + wire::icrc_bytes, 0x77);
      datagram[1] &= 0xcf;
    }
    if ((how & right_remote) != 0) repair_remote(datagram, service, op, headers);
  }

  void repair_remote(std::vector<std::uint8_t>& datagram, wire::transport service,
                     wire::operation op, std::size_t headers) const {
    const auto own_part = service == wire::transport::xrc ? wire::bth_bytes + 4 : wire::bth_bytes;
    if (datagram.size() < headers + wire::icrc_bytes) datagram.resize(headers + wire::icrc_bytes);
    auto* const bytes = reinterpret_cast<std::byte*>(datagram.data());
    if (service == wire::transport::xrc) wire::store_big(bytes + wire::bth_bytes, shared_number_);
    if (service == wire::transport::ud) wire::store_big(bytes + wire::bth_bytes, qkey);
    using enum wire::operation;
    const bool remote = op == write_first || op == write_only || op == write_only_immediate ||
                        op == read_request || op == compare_swap || op == fetch_add;
    if (!remote || own_part + 12 > headers) return;
    // The two lowest bytes of the address stay as they came: around the memory and beyond it.
    const auto offset = wire::load_big<std::uint16_t>(bytes + own_part + 6);
    const auto* const region = (offset & 0x8000U) != 0 ? around().readable : around().granted;
    wire::store_big(bytes + own_part, address_of(memory().granted) + (offset & 0x1fffU));
    wire::store_big(bytes + own_part + 8, region->rkey);
  }

  ibv_qp_type type_;
  ibv_cq* cq_;
  ibv_xrcd* domain_ = nullptr;
  ibv_srq* shared_ = nullptr;
  std::uint32_t shared_number_ = 0;
  ibv_qp* peer_ = nullptr;
  ibv_qp* own_ = nullptr;
  unsigned posted_ = 0;
};

}  // namespace

// NOLINTNEXTLINE(readability-identifier-naming): libFuzzer's
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  // Never destroyed: the device's thread runs until the end.
  static auto& pairs = *new std::array{target(IBV_QPT_RC), target(IBV_QPT_UC), target(IBV_QPT_UD),
                                       target(IBV_QPT_XRC_RECV)};
  fuzz::input in(std::span(data, size));
  memory().reset();
  auto& pair = pairs[in.below(pairs.size())];
  pair.begin(in.byte());
  for (int i = 0; i < most_packets && !in.is_empty(); ++i) pair.receive(in);
  pair.end();
  require(memory().is_intact());
  return 0;
}
