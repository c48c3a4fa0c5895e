// Two queue pairs of one process on a soft device: what `./bench soft` measures without a second
// process. Plain C verbs, as any program would use them.
//
//   soft_same_process send|write latency|bandwidth <bytes> <messages> <threads>
//
// One thread serves both queue pairs in turn; of two threads each has its own. A thread that waits
// for a write only reads the memory and makes no calls.

#include <array>
#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <thread>
#include <vector>

#include <infiniband/verbs.h>

#include "timing.hpp"

namespace {

using namespace benchmark_timing;

constexpr int depth = 128;  // as in perftest
constexpr std::uint8_t ipv4_gid = 1;
constexpr std::uint8_t port = 1;
constexpr auto patience = std::chrono::seconds(10);
constexpr int polls_between_looks_at_the_clock = 1 << 16;

struct options {
  bool write;
  bool latency;
  std::uint32_t bytes;
  int messages;
  bool two_threads;
};

/// Spins, and fails instead of hanging.
template <class Condition>
void wait_for(const Condition& holds) {
  const auto deadline = clock::now() + patience;
  for (int polls = 1; !holds(); ++polls) {
    if (polls % polls_between_looks_at_the_clock != 0 || clock::now() < deadline) continue;
    errno = ETIMEDOUT;
    fail("waiting for a completion or for data");
  }
}

ibv_context* open_soft_device() {
  int count = 0;
  ibv_device** const devices = ibv_get_device_list(&count);
  need(devices != nullptr, "ibv_get_device_list");
  for (ibv_device* const device : std::span(devices, static_cast<std::size_t>(count))) {
    if (ibv_get_device_name(device) != std::string_view("soft0")) continue;
    ibv_context* const opened = ibv_open_device(device);
    need(opened != nullptr, "ibv_open_device");
    ibv_free_device_list(devices);
    return opened;
  }
  errno = ENODEV;
  fail("soft0");
}

/// One queue pair with its resources. Exists until the process ends.
class side {
 public:
  side(ibv_context* device, ibv_pd* domain, std::uint32_t bytes)
      : memory_(bytes),
        send_cq_(ibv_create_cq(device, depth, nullptr, nullptr, 0)),
        receive_cq_(ibv_create_cq(device, depth, nullptr, nullptr, 0)) {
    const int access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE;
    region_ = ibv_reg_mr(domain, memory_.data(), memory_.size(), access);
    need(region_ != nullptr, "ibv_reg_mr");
    need(send_cq_ != nullptr && receive_cq_ != nullptr, "ibv_create_cq");
    ibv_qp_init_attr wanted{};
    wanted.send_cq = send_cq_;
    wanted.recv_cq = receive_cq_;
    wanted.cap = {.max_send_wr = depth,
                  .max_recv_wr = depth,
                  .max_send_sge = 1,
                  .max_recv_sge = 1,
                  .max_inline_data = 0};
    wanted.qp_type = IBV_QPT_RC;
    wanted.sq_sig_all = 1;
    qp_ = ibv_create_qp(domain, &wanted);
    need(qp_ != nullptr, "ibv_create_qp");
  }

  void connect(const side& other) {
    other_ = &other;
    ibv_qp_attr attributes{};
    attributes.qp_state = IBV_QPS_INIT;
    attributes.port_num = port;
    attributes.qp_access_flags = IBV_ACCESS_REMOTE_WRITE;
    need(ibv_modify_qp(qp_, &attributes,
                       IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS) == 0,
         "to INIT");
    attributes.qp_state = IBV_QPS_RTR;
    attributes.path_mtu = IBV_MTU_4096;
    attributes.dest_qp_num = other.qp_->qp_num;
    attributes.max_dest_rd_atomic = 1;
    attributes.min_rnr_timer = 1;
    attributes.ah_attr.is_global = 1;
    attributes.ah_attr.port_num = port;
    attributes.ah_attr.grh.sgid_index = ipv4_gid;
    attributes.ah_attr.grh.hop_limit = 1;
    need(ibv_query_gid(qp_->context, port, ipv4_gid, &attributes.ah_attr.grh.dgid) == 0,
         "ibv_query_gid");
    need(ibv_modify_qp(qp_, &attributes,
                       IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
                           IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER) == 0,
         "to RTR");
    attributes.qp_state = IBV_QPS_RTS;
    attributes.timeout = 14;
    attributes.retry_cnt = 7;
    attributes.rnr_retry = 7;
    attributes.max_rd_atomic = 1;
    need(ibv_modify_qp(qp_, &attributes,
                       IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
                           IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC) == 0,
         "to RTS");
  }

  void post_receive() {
    ibv_sge part = whole();
    ibv_recv_wr wanted{.wr_id = 0, .next = nullptr, .sg_list = &part, .num_sge = 1};
    ibv_recv_wr* bad = nullptr;
    need(ibv_post_recv(qp_, &wanted, &bad) == 0, "ibv_post_recv");
  }

  void post(bool write) {
    ibv_sge part = whole();
    ibv_send_wr wanted{};
    wanted.sg_list = &part;
    wanted.num_sge = 1;
    wanted.opcode = write ? IBV_WR_RDMA_WRITE : IBV_WR_SEND;
    wanted.wr.rdma.remote_addr = reinterpret_cast<std::uintptr_t>(other_->memory_.data());
    wanted.wr.rdma.rkey = other_->region_->rkey;
    ibv_send_wr* bad = nullptr;
    need(ibv_post_send(qp_, &wanted, &bad) == 0, "ibv_post_send");
  }

  int poll_sent() { return poll(send_cq_); }
  int poll_received() { return poll(receive_cq_); }

  /// The last byte of a message, which a write places last.
  std::atomic_ref<std::uint8_t> last() { return std::atomic_ref(memory_.back()); }

 private:
  static int poll(ibv_cq* queue) {
    std::array<ibv_wc, 16> completions;
    const int count = ibv_poll_cq(queue, static_cast<int>(completions.size()), completions.data());
    need(count >= 0, "ibv_poll_cq");
    for (const auto& completion : std::span(completions).first(static_cast<std::size_t>(count))) {
      if (completion.status == IBV_WC_SUCCESS) continue;
      errno = EIO;
      fail(ibv_wc_status_str(completion.status));
    }
    return count;
  }

  ibv_sge whole() {
    return {.addr = reinterpret_cast<std::uintptr_t>(memory_.data()),
            .length = static_cast<std::uint32_t>(memory_.size()),
            .lkey = region_->lkey};
  }

  std::vector<std::uint8_t> memory_;
  ibv_mr* region_ = nullptr;
  ibv_cq* send_cq_;
  ibv_cq* receive_cq_;
  ibv_qp* qp_ = nullptr;
  const side* other_ = nullptr;
};

// ── latency ──

/// Sends message `number`; a write carries the number, so that the other side sees it arrive.
void emit(side& from, const options& wanted, int number) {
  if (wanted.write) {
    from.last().store(static_cast<std::uint8_t>(number), std::memory_order_relaxed);
  } else {
    from.post_receive();  // for the answer, before it can arrive
  }
  from.post(wanted.write);
}

void await(side& at, const options& wanted, int number) {
  if (wanted.write) {
    const auto expected = static_cast<std::uint8_t>(number);
    wait_for([&] { return at.last().load(std::memory_order_acquire) == expected; });
  } else {
    wait_for([&] { return at.poll_received() == 1; });
  }
}

void await_sent(side& at) {
  wait_for([&] { return at.poll_sent() == 1; });
}

// Each side has its own memory for both directions: the peer's number differs from this side's last
// one, so an old value is never mistaken for a new one.
int question(int i) { return (2 * i) + 1; }
int reply(int i) { return (2 * i) + 2; }

void measure_latency(side& a, side& b, const options& wanted) {
  if (!wanted.write) b.post_receive();
  round_trips measured(wanted.messages);
  const auto ask = [&](int i) { emit(a, wanted, question(i)); };
  const auto answer = [&](int i) {
    await(b, wanted, question(i));
    emit(b, wanted, reply(i));
  };
  if (wanted.two_threads) {
    const std::jthread other([&] {
      for (int i = 0; i < wanted.messages; ++i) {
        answer(i);
        await_sent(b);
      }
    });
    for (int i = 0; i < wanted.messages; ++i) {
      measured.time([&] {
        ask(i);
        await(a, wanted, reply(i));
      });
      await_sent(a);
    }
  } else {
    for (int i = 0; i < wanted.messages; ++i) {
      measured.time([&] {
        ask(i);
        answer(i);
        await(a, wanted, reply(i));
      });
      await_sent(a);
      await_sent(b);
    }
  }
  measured.print();
}

// ── bandwidth ──

class receiver {
 public:
  receiver(side& at, const options& wanted) : at_(&at), left_(wanted.write ? 0 : wanted.messages) {
    if (wanted.write) return;
    for (int i = 0; i < depth; ++i) at.post_receive();
  }

  [[nodiscard]] bool done() const { return left_ == 0; }

  void work() {
    const int received = at_->poll_received();
    for (int i = 0; i < received; ++i) at_->post_receive();
    left_ -= received;
  }

 private:
  side* at_;
  int left_;
};

class sender {
 public:
  sender(side& at, const options& wanted)
      : at_(&at), write_(wanted.write), unposted_(wanted.messages) {}

  [[nodiscard]] bool done() const { return unposted_ == 0 && on_their_way_ == 0; }

  void work() {
    for (; on_their_way_ < depth && unposted_ > 0; ++on_their_way_, --unposted_) at_->post(write_);
    on_their_way_ -= at_->poll_sent();
  }

 private:
  side* at_;
  bool write_;
  int unposted_;
  int on_their_way_ = 0;
};

template <class Worker>
bool work_until_done(Worker& worker) {
  if (!worker.done()) worker.work();
  return worker.done();
}

void measure_bandwidth(side& a, side& b, const options& wanted) {
  receiver receiving(b, wanted);
  sender sending(a, wanted);
  const auto start = clock::now();
  if (wanted.two_threads) {
    const std::jthread other([&] { wait_for([&] { return work_until_done(receiving); }); });
    wait_for([&] { return work_until_done(sending); });
  } else {
    wait_for([&] {
      const bool sent = work_until_done(sending);
      return work_until_done(receiving) && sent;
    });
  }
  print_bandwidth(static_cast<double>(wanted.bytes) * wanted.messages, clock::now() - start);
}

}  // namespace

int main(int count, char** values) {
  const std::span words(values, static_cast<std::size_t>(count));
  if (words.size() != 6) {
    std::fputs(
        "usage: soft_same_process send|write latency|bandwidth <bytes> <messages> <threads>\n",
        stderr);
    return 2;
  }
  const options wanted{.write = words[1] == std::string_view("write"),
                       .latency = words[2] == std::string_view("latency"),
                       .bytes = static_cast<std::uint32_t>(std::strtoul(words[3], nullptr, 10)),
                       .messages = static_cast<int>(std::strtol(words[4], nullptr, 10)),
                       .two_threads = words[5] == std::string_view("2")};
  ibv_context* const device = open_soft_device();
  ibv_pd* const domain = ibv_alloc_pd(device);
  need(domain != nullptr, "ibv_alloc_pd");
  side a(device, domain, wanted.bytes);
  side b(device, domain, wanted.bytes);
  a.connect(b);
  b.connect(a);
  wanted.latency ? measure_latency(a, b, wanted) : measure_bandwidth(a, b, wanted);
}
