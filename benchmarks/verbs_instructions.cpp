// What does rdmaxx cost over the C API? Counted in instructions, with callgrind.
//
// Each operation exists twice: c_<name> uses libibverbs as careful C does, cpp_<name> uses rdmaxx.
// Both are the same loop with the same data. `./bench verbs` runs this program under callgrind and
// compares the inclusive instruction counts of the two functions, divided by the operations.
//
// The device is a provider that does nothing, called like a real one through ibv_context::ops: its
// instructions are the same on both sides, so the difference comes from the callers.
//
// The C loops fill requests field by field, without zeroing the rest: the leanest possible C.

#include <array>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <span>

#include <rdmaxx/rdmaxx.hpp>

namespace {

using namespace rdmaxx;

constexpr int batch = 16;

// ── the provider ──

int completions_per_poll = 0;

int post_send(ibv_qp*, ibv_send_wr*, ibv_send_wr**) { return 0; }
int post_recv(ibv_qp*, ibv_recv_wr*, ibv_recv_wr**) { return 0; }
int poll_cq(ibv_cq*, int, ibv_wc* wc) {
  for (int i = 0; i < completions_per_poll; ++i) {
    wc[i].wr_id = static_cast<std::uint64_t>(i);
    wc[i].status = IBV_WC_SUCCESS;
  }
  return completions_per_poll;
}

struct provider {
  provider() {
    context.ops.post_send = post_send;
    context.ops.post_recv = post_recv;
    context.ops.poll_cq = poll_cq;
    qp.context = &context;
    cq.context = &context;
  }

  ibv_context context{};
  ibv_qp qp{};
  ibv_cq cq{};
  std::array<std::byte, 4096> memory{};
  ibv_mr mr{.context = nullptr,
            .pd = nullptr,
            .addr = memory.data(),
            .length = memory.size(),
            .handle = 0,
            .lkey = 7,
            .rkey = 7};
};

provider null_device;

constexpr std::uint32_t message_bytes = 64;

/// Completions that are used cannot be optimised away.
std::uint64_t checksum = 0;

[[noreturn]] void fail() {
  std::fputs("a call failed\n", stderr);
  std::abort();
}

}  // namespace

// ── the pairs ──

extern "C" {

[[gnu::noinline]] void c_post_send_1sge(ibv_qp* qp, ibv_mr* mr, std::byte* data, long iterations) {
  for (long i = 0; i < iterations; ++i) {
    ibv_sge sge;
    sge.addr = reinterpret_cast<std::uintptr_t>(data);
    sge.length = message_bytes;
    sge.lkey = mr->lkey;
    ibv_send_wr wr;
    ibv_send_wr* bad = nullptr;
    wr.wr_id = static_cast<std::uint64_t>(i);
    wr.next = nullptr;
    wr.sg_list = &sge;
    wr.num_sge = 1;
    wr.opcode = IBV_WR_SEND;
    wr.send_flags = IBV_SEND_SIGNALED;
    if (ibv_post_send(qp, &wr, &bad) != 0) fail();
  }
}

[[gnu::noinline]] void cpp_post_send_1sge(const queue_pair& qp, const memory_region& mr,
                                          std::byte* data, long iterations) {
  for (long i = 0; i < iterations; ++i) {
    const auto bytes = std::span(data, message_bytes);
    if (!qp.post(send_wr{.id = wr_id(static_cast<std::uint64_t>(i)),
                         .from = mr.gather_unchecked(bytes)}))
      fail();
  }
}

/// A request with a name, which a program may change and post again.
[[gnu::noinline]] void cpp_post_send_named(const queue_pair& qp, const memory_region& mr,
                                           std::byte* data, long iterations) {
  for (long i = 0; i < iterations; ++i) {
    const auto bytes = std::span(data, message_bytes);
    const send_wr request{.id = wr_id(static_cast<std::uint64_t>(i)),
                          .from = mr.gather_unchecked(bytes)};
    if (!qp.post(request)) fail();
  }
}

[[gnu::noinline]] void c_post_send_inline(ibv_qp* qp, std::byte* data, long iterations) {
  for (long i = 0; i < iterations; ++i) {
    ibv_sge sge;
    sge.addr = reinterpret_cast<std::uintptr_t>(data);
    sge.length = message_bytes;
    sge.lkey = 0;
    ibv_send_wr wr;
    ibv_send_wr* bad = nullptr;
    wr.wr_id = static_cast<std::uint64_t>(i);
    wr.next = nullptr;
    wr.sg_list = &sge;
    wr.num_sge = 1;
    wr.opcode = IBV_WR_SEND;
    wr.send_flags = IBV_SEND_SIGNALED | IBV_SEND_INLINE;
    if (ibv_post_send(qp, &wr, &bad) != 0) fail();
  }
}

[[gnu::noinline]] void cpp_post_send_inline(const queue_pair& qp, std::byte* data,
                                            long iterations) {
  for (long i = 0; i < iterations; ++i) {
    const auto bytes = std::span(data, message_bytes);
    if (!qp.post(send_wr{.id = wr_id(static_cast<std::uint64_t>(i)),
                         .from = gather_element::unregistered(bytes),
                         .flags = send_flag::signaled | send_flag::inline_data})) {
      fail();
    }
  }
}

[[gnu::noinline]] void c_post_send_list16(ibv_qp* qp, ibv_mr* mr, std::byte* data,
                                          long iterations) {
  std::array<ibv_sge, batch> sges;
  std::array<ibv_send_wr, batch> wrs;
  for (long i = 0; i < iterations; ++i) {
    for (std::size_t k = 0; k < batch; ++k) {
      ibv_sge& sge = sges[k];
      sge.addr = reinterpret_cast<std::uintptr_t>(data + k * message_bytes);
      sge.length = message_bytes;
      sge.lkey = mr->lkey;
      ibv_send_wr& wr = wrs[k];
      wr.wr_id = k;
      wr.next = &wr + 1;
      wr.sg_list = &sge;
      wr.num_sge = 1;
      wr.opcode = IBV_WR_SEND;
      wr.send_flags = IBV_SEND_SIGNALED;
    }
    wrs[batch - 1].next = nullptr;
    ibv_send_wr* bad = nullptr;
    if (ibv_post_send(qp, wrs.data(), &bad) != 0) fail();
  }
}

[[gnu::noinline]] void cpp_post_send_list16(const queue_pair& qp, const memory_region& mr,
                                            std::byte* data, long iterations) {
  std::array<send_slot, batch> slots;
  for (long i = 0; i < iterations; ++i) {
    send_list list(slots);
    for (std::size_t k = 0; k < batch; ++k) {
      const auto bytes = std::span(data + k * message_bytes, message_bytes);
      list.push(send_wr{.id = wr_id(k), .from = mr.gather_unchecked(bytes)});
    }
    if (!qp.post(list)) fail();
  }
}

[[gnu::noinline]] void c_post_recv(ibv_qp* qp, ibv_mr* mr, std::byte* data, long iterations) {
  for (long i = 0; i < iterations; ++i) {
    ibv_sge sge;
    sge.addr = reinterpret_cast<std::uintptr_t>(data);
    sge.length = message_bytes;
    sge.lkey = mr->lkey;
    ibv_recv_wr wr;
    ibv_recv_wr* bad = nullptr;
    wr.wr_id = static_cast<std::uint64_t>(i);
    wr.next = nullptr;
    wr.sg_list = &sge;
    wr.num_sge = 1;
    if (ibv_post_recv(qp, &wr, &bad) != 0) fail();
  }
}

[[gnu::noinline]] void cpp_post_recv(const queue_pair& qp, const memory_region& mr, std::byte* data,
                                     long iterations) {
  for (long i = 0; i < iterations; ++i) {
    const auto bytes = std::span(data, message_bytes);
    if (!qp.post(recv_wr{.id = wr_id(static_cast<std::uint64_t>(i)),
                         .into = mr.scatter_unchecked(bytes)}))
      fail();
  }
}

/// One loop polls nothing, one or sixteen completions: the provider decides.
#define RDMAXX_POLL_PAIR(name, capacity)                                            \
  [[gnu::noinline]] void c_##name(ibv_cq* cq, long iterations) {                    \
    ibv_wc wc[capacity];                                                            \
    for (long i = 0; i < iterations; ++i) {                                         \
      const int count = ibv_poll_cq(cq, capacity, wc);                              \
      if (count < 0) fail();                                                        \
      for (const ibv_wc* completion = wc; completion != wc + count; ++completion) { \
        if (completion->status != IBV_WC_SUCCESS) fail();                           \
        checksum += completion->wr_id;                                              \
      }                                                                             \
    }                                                                               \
  }                                                                                 \
  [[gnu::noinline]] void cpp_##name(const completion_queue& cq, long iterations) {  \
    work_completion wc[capacity];                                                   \
    for (long i = 0; i < iterations; ++i) {                                         \
      const auto polled = cq.poll(wc);                                              \
      if (!polled) fail();                                                          \
      for (const work_completion& completion : *polled) {                           \
        if (!completion) fail();                                                    \
        checksum += completion.id().value();                                        \
      }                                                                             \
    }                                                                               \
  }
RDMAXX_POLL_PAIR(poll_empty, 16)
RDMAXX_POLL_PAIR(poll_1, 1)
RDMAXX_POLL_PAIR(poll_16, 16)
#undef RDMAXX_POLL_PAIR

}  // extern "C"

int main(int argc, char** argv) {
  const long iterations = argc > 1 ? std::strtol(argv[1], nullptr, 10) : 1000;
  // Handles without a block: nothing here is ever destroyed by them.
  const auto qp = detail::handle_access::make<queue_pair>(&null_device.qp, detail::reference(),
                                                          std::uint32_t{256});
  const auto cq =
      detail::handle_access::make<completion_queue>(&null_device.cq, detail::reference());
  const auto mr = detail::handle_access::make<memory_region>(&null_device.mr, detail::reference(),
                                                             access_flags(access::local_write));
  std::byte* const data = null_device.memory.data();

  c_post_send_1sge(&null_device.qp, &null_device.mr, data, iterations);
  cpp_post_send_1sge(qp, mr, data, iterations);
  cpp_post_send_named(qp, mr, data, iterations);
  c_post_send_inline(&null_device.qp, data, iterations);
  cpp_post_send_inline(qp, data, iterations);
  c_post_send_list16(&null_device.qp, &null_device.mr, data, iterations);
  cpp_post_send_list16(qp, mr, data, iterations);
  c_post_recv(&null_device.qp, &null_device.mr, data, iterations);
  cpp_post_recv(qp, mr, data, iterations);
  completions_per_poll = 0;
  c_poll_empty(&null_device.cq, iterations);
  cpp_poll_empty(cq, iterations);
  completions_per_poll = 1;
  c_poll_1(&null_device.cq, iterations);
  cpp_poll_1(cq, iterations);
  completions_per_poll = batch;
  c_poll_16(&null_device.cq, iterations);
  cpp_poll_16(cq, iterations);
  std::printf("%llu\n", static_cast<unsigned long long>(checksum));
}
