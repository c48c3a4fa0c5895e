// Without memory or threads the C functions fail as C functions do: no exception comes out, nothing
// is left half made, and what is there goes on working.

#include <array>
#include <cerrno>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <iterator>
#include <string>
#include <string_view>
#include <vector>

#include <gtest/gtest.h>
#include <infiniband/verbs.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <netinet/in.h>
#include <rdma/rdma_cma.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "connected_pair.hpp"
#include "device/byte_pattern.hpp"
#include "owned.hpp"
#include "requests.hpp"
#include "scarce_memory.hpp"
#include "waiting.hpp"

namespace softverbs::device_tests {

namespace {

using rdmaxx::device_tests::fill_pattern;
using rdmaxx::device_tests::same_bytes;

// More allocations than any of these functions makes.
constexpr std::size_t most_allocations = 2000;

std::ptrdiff_t open_descriptors() {
  using files = std::filesystem::directory_iterator;
  return std::distance(files("/proc/self/fd"), files{});
}

/// Calls `function`, which returns 0 or an errno, with each of its allocations failing in turn.
void expect_survival(std::string_view what, const std::function<int()>& function) {
  SCOPED_TRACE(what);
  ASSERT_EQ(function(), 0) << "with memory";
  const auto descriptors = open_descriptors();
  for (std::size_t spared = 0; spared < most_allocations; ++spared) {
    int failure = 0;
    bool felt = false;
    {
      const scarce_memory scarcity(spared);
      failure = function();
      felt = scarcity.was_felt();
    }
    if (!felt) {
      EXPECT_EQ(failure, 0);
      EXPECT_EQ(open_descriptors(), descriptors);
      return;
    }
    // What is not needed for the result may be lost without a failure.
    EXPECT_TRUE(failure == 0 || failure == ENOMEM)
        << failure << " after " << spared << " allocations";
  }
  FAIL() << "it never succeeded";
}

/// 0 if the object was made, and destroys it; else errno.
template <class T>
int made_or_errno(T* object) {
  if (object == nullptr) return errno;
  destroy()(object);
  return 0;
}

TEST(exhaustion, functions_that_make_things_return_enomem) {
  const auto context = open_device();
  const auto pd = own(ibv_alloc_pd(context.get()));
  const auto cq = own(ibv_create_cq(context.get(), 16, nullptr, nullptr, 0));
  const auto other_cq = own(ibv_create_cq(context.get(), 16, nullptr, nullptr, 0));
  std::array<std::byte, 4096> memory{};

  expect_survival("ibv_get_device_list", [] {
    auto** const list = ibv_get_device_list(nullptr);
    if (list == nullptr) return errno;
    ibv_free_device_list(list);
    return 0;
  });
  expect_survival("ibv_open_device",
                  [&] { return made_or_errno(ibv_open_device(context->device)); });
  expect_survival("ibv_alloc_pd", [&] { return made_or_errno(ibv_alloc_pd(context.get())); });
  expect_survival("ibv_create_comp_channel",
                  [&] { return made_or_errno(ibv_create_comp_channel(context.get())); });
  expect_survival("ibv_create_cq", [&] {
    return made_or_errno(ibv_create_cq(context.get(), 16, nullptr, nullptr, 0));
  });
  expect_survival("ibv_create_cq_ex", [&] {
    ibv_cq_init_attr_ex wanted{};
    wanted.cqe = 16;
    return made_or_errno(ibv_create_cq_ex(context.get(), &wanted));
  });
  expect_survival("ibv_resize_cq", [&] { return ibv_resize_cq(other_cq.get(), 64); });
  expect_survival("ibv_reg_mr", [&] {
    return made_or_errno(ibv_reg_mr(pd.get(), memory.data(), memory.size(), all_access));
  });
  expect_survival("ibv_alloc_mw",
                  [&] { return made_or_errno(ibv_alloc_mw(pd.get(), IBV_MW_TYPE_2)); });
  expect_survival("ibv_create_srq", [&] {
    ibv_srq_init_attr wanted{.srq_context = nullptr,
                             .attr = {.max_wr = 8, .max_sge = 1, .srq_limit = 0}};
    return made_or_errno(ibv_create_srq(pd.get(), &wanted));
  });
  expect_survival("ibv_open_xrcd", [&] {
    ibv_xrcd_init_attr wanted{};
    wanted.comp_mask = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS;
    wanted.fd = -1;
    return made_or_errno(ibv_open_xrcd(context.get(), &wanted));
  });
  expect_survival("ibv_create_qp", [&] {
    ibv_qp_init_attr wanted{};
    wanted.send_cq = wanted.recv_cq = cq.get();
    wanted.cap = {.max_send_wr = 8,
                  .max_recv_wr = 8,
                  .max_send_sge = 1,
                  .max_recv_sge = 1,
                  .max_inline_data = 0};
    wanted.qp_type = IBV_QPT_RC;
    return made_or_errno(ibv_create_qp(pd.get(), &wanted));
  });
  const auto neighbour = gid_of(context.get(), ipv4_index);
  expect_survival("ibv_create_ah", [&] {
    ibv_ah_attr wanted{};
    wanted.port_num = 1;
    wanted.is_global = 1;
    wanted.grh.sgid_index = ipv4_index;
    wanted.grh.dgid = neighbour;
    return made_or_errno(ibv_create_ah(pd.get(), &wanted));
  });
}

TEST(exhaustion, functions_that_ask_return_enomem) {
  const auto context = open_device();
  expect_survival("ibv_query_device", [&] {
    ibv_device_attr found{};
    return ibv_query_device(context.get(), &found);
  });
  expect_survival("ibv_query_port", [&] {
    ibv_port_attr found{};
    return ibv_query_port(context.get(), 1, &found);
  });
  expect_survival("ibv_query_gid", [&] {
    ibv_gid found{};
    return ibv_query_gid(context.get(), 1, ipv4_index, &found) == 0 ? 0 : errno;
  });
  expect_survival("ibv_query_gid_ex", [&] {
    ibv_gid_entry found{};
    return ibv_query_gid_ex(context.get(), 1, ipv4_index, &found, 0);
  });
  expect_survival("ibv_query_gid_table", [&] {
    std::array<ibv_gid_entry, 64> found{};
    const auto rows = ibv_query_gid_table(context.get(), found.data(), found.size(), 0);
    return rows < 0 ? static_cast<int>(-rows) : 0;
  });
}

TEST(exhaustion, connecting_a_queue_pair_returns_enomem) {
  const auto context = open_device();
  const side one(context.get());
  const side other(context.get());
  const std::array steps{to_state(IBV_QPS_RESET), to_init(IBV_QPT_RC),
                         to_rtr(context.get(), IBV_QPT_RC, other.qp->qp_num), to_rts(IBV_QPT_RC)};
  expect_survival("ibv_modify_qp", [&] {
    for (auto step : steps) {
      if (const int failure = step.apply(one.qp.get())) return failure;
    }
    return 0;
  });
}

TEST(exhaustion, the_connection_manager_returns_enomem) {
  expect_survival("rdma_create_event_channel", [] {
    auto* const channel = rdma_create_event_channel();
    if (channel == nullptr) return errno;
    rdma_destroy_event_channel(channel);
    return 0;
  });
  auto* const channel = rdma_create_event_channel();
  ASSERT_NE(channel, nullptr);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  expect_survival("rdma_create_id, rdma_bind_addr, rdma_listen", [&] {
    rdma_cm_id* id = nullptr;
    if (rdma_create_id(channel, &id, nullptr, RDMA_PS_TCP) != 0) return errno;
    int failure = rdma_bind_addr(id, reinterpret_cast<sockaddr*>(&address)) == 0 ? 0 : errno;
    if (failure == 0 && rdma_listen(id, 1) != 0) failure = errno;
    EXPECT_EQ(rdma_destroy_id(id), 0);
    return failure;
  });
  rdma_destroy_event_channel(channel);
}

/// With an allocation failing, a transfer succeeds, or fails as a broken queue pair does.
void transfer_without(std::size_t spared, bool& felt) {
  // Seconds less to wait where the other side breaks.
  connected_pair pair({.timeout = 12});
  buffer from(pair.a.domain(), 10'000);
  buffer to(pair.b.domain(), 10'000);
  fill_pattern(from.bytes(), spared);
  auto requests = std::array{write(1, {from.sge()}, to.address(), to.rkey()),
                             read(2, {from.sge()}, to.address(), to.rkey())};
  std::vector<ibv_wc> done(2);
  std::size_t count = 0;
  {
    const scarce_memory scarcity(spared);
    for (auto& each : requests) ASSERT_EQ(each.post(pair.a.qp.get()), 0);
    // Until both have completed, well or badly: nothing hangs.
    for (int i = 0; i < 20'000 && count < 2; ++i) {
      const int got = ibv_poll_cq(pair.a.send_cq.get(), 1, &done[count]);
      ASSERT_GE(got, 0);
      count += static_cast<std::size_t>(got);
    }
    felt = scarcity.was_felt();
  }
  if (count < 2) {
    // What was lost on the way is repeated when its time has come.
    const auto rest = wait_for(pair.a.send_cq.get(), 2 - count);
    for (const auto& each : rest) done[count++] = each;
  }
  for (const auto& each : done) {
    if (each.status == IBV_WC_SUCCESS) continue;
    EXPECT_TRUE(felt) << ibv_wc_status_str(each.status);
    discard_events(pair.context);
    return;
  }
  EXPECT_TRUE(same_bytes(to.bytes(), from.bytes()));
}

TEST(exhaustion, a_transfer_completes_well_or_badly) {
  bool felt = true;
  for (std::size_t spared = 0; felt; ++spared) {
    ASSERT_LT(spared, most_allocations);
    SCOPED_TRACE(spared);
    transfer_without(spared, felt);
    if (HasFatalFailure()) return;
  }
}

// --- threads ---------------------------------------------------------------------------------

/// From now on this process makes no thread: clone(2) fails with EAGAIN, as at a limit.
[[nodiscard]] bool forbid_threads() {
  constexpr auto refusal = static_cast<std::uint32_t>(SECCOMP_RET_ERRNO) | EAGAIN;
  std::array filter{
      sock_filter BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
      sock_filter BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_clone, 2, 0),
      sock_filter BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_clone3, 1, 0),
      sock_filter BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
      sock_filter BPF_STMT(BPF_RET | BPF_K, refusal),
  };
  const sock_fprog program{.len = filter.size(), .filter = filter.data()};
  return ::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
         ::prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
}

/// The signals that this thread blocks.
std::vector<int> blocked_signals() {
  sigset_t now{};
  ::pthread_sigmask(SIG_SETMASK, nullptr, &now);
  std::vector<int> blocked;
  for (int each = 1; each < NSIG; ++each) {
    if (::sigismember(&now, each) == 1) blocked.push_back(each);
  }
  return blocked;
}

std::string without_threads() {
  if (!forbid_threads()) return "seccomp is not to be had";
  const auto blocked = blocked_signals();
  auto** const list = ibv_get_device_list(nullptr);
  if (list == nullptr || list[0] == nullptr) return "no device";
  const auto descriptors = open_descriptors();
  std::string wrong;
  for (int i = 0; i < 3; ++i) {
    errno = 0;
    if (ibv_open_device(list[0]) != nullptr || errno != EAGAIN)
      wrong += "ibv_open_device gives " + std::to_string(errno) + "; ";
    auto* const channel = rdma_create_event_channel();
    rdma_cm_id* id = nullptr;
    errno = 0;
    if (channel == nullptr || rdma_create_id(channel, &id, nullptr, RDMA_PS_TCP) != -1 ||
        errno != EAGAIN)
      wrong += "rdma_create_id gives " + std::to_string(errno) + "; ";
    if (channel != nullptr) rdma_destroy_event_channel(channel);
  }
  if (blocked_signals() != blocked) wrong += "other signals are blocked; ";
  if (open_descriptors() != descriptors) {
    wrong += std::to_string(open_descriptors() - descriptors) + " descriptors are left:";
    for (const auto& each : std::filesystem::directory_iterator("/proc/self/fd"))
      wrong += " " + std::filesystem::read_symlink(each).string();
  }
  return wrong;
}

TEST(exhaustion, without_threads_devices_and_identifiers_give_eagain) {
#if defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "the thread sanitizer needs a thread of its own";
#endif
  const pid_t child = ::fork();
  if (child == 0) {
    ::alarm(30);
    const auto wrong = without_threads();
    [[maybe_unused]] const auto written = ::write(STDERR_FILENO, wrong.data(), wrong.size());
    ::_exit(wrong.empty() ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
}

}  // namespace
}  // namespace softverbs::device_tests
