// Destruction in every order, with work in flight, and when the device refuses it.

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <rdmaxx/rdmaxx.hpp>

#include "byte_pattern.hpp"
#include "completion_waiter.hpp"
#include "connected_pair.hpp"
#include "intended_leak.hpp"
#include "log_capture.hpp"
#include "open_descriptors.hpp"

namespace rdmaxx::device_tests {

namespace {

class destruction : public ::testing::Test {
 protected:
  const device_under_test& dut = device_under_test::get();  // NOLINT(readability-identifier-naming)
};

/// One handle of each kind, made from one another, with receives posted and the queue armed.
struct handles {
  context ctx;
  protection_domain pd{};
  completion_channel channel{};
  completion_queue cq{};
  queue_pair qp{};
  owned_region region{};

  explicit handles(context opened) : ctx(std::move(opened)) {
    pd = ctx.alloc_pd().value();
    channel = ctx.create_completion_channel().value();
    cq = ctx.create_cq({.capacity = 16, .channel = channel}).value();
    qp = pd.create_qp(
               {.send_cq = cq, .recv_cq = cq, .capabilities = {.max_send_wr = 4, .max_recv_wr = 4}})
             .value();
    region = pd.allocate_local({.bytes = 64}).value();
    cq.req_notify().value();
    if (ctx.transport() != transport_type::iwarp) qp.to_init({}).value();
    qp.post(recv_wr{.into = region.scatter()}).value();
  }

  static constexpr std::size_t kinds = 6;
  void drop(std::size_t kind) {
    switch (kind) {
      case 0:
        ctx = {};
        break;
      case 1:
        pd = {};
        break;
      case 2:
        channel = {};
        break;
      case 3:
        cq = {};
        break;
      case 4:
        qp = {};
        break;
      default:
        region = {};
        break;
    }
  }
};

TEST_F(destruction, in_any_order_leaves_nothing_behind) {
  // Every seventh of the 720 orders; all pairs of kinds occur in both orders among them.
  constexpr int stride = 7;
  std::array<std::size_t, handles::kinds> order{0, 1, 2, 3, 4, 5};
  const auto before = open_descriptors();
  const log_capture log;
  int number = 0;
  do {
    if (number++ % stride != 0) continue;
    handles all(dut.open());
    for (const auto kind : order) all.drop(kind);
    ASSERT_EQ(open_descriptors(), before) << "order " << number;
  } while (std::ranges::next_permutation(order).found);
  EXPECT_EQ(number, 720);
  EXPECT_TRUE(log.lines().empty()) << log.lines().front();
}

TEST_F(destruction, of_the_parents_handles_leaves_a_working_connection) {
  connected_pair pair;
  const auto from = pair.a.local_memory(64);
  const auto into = pair.b.local_memory(64);
  fill_pattern(from.bytes(), 1);
  for (auto* side : {&pair.a, &pair.b}) {
    side->ctx = {};
    side->pd = {};
  }

  pair.b.qp.post(recv_wr{.into = into.scatter()}).value();
  pair.a.qp.post(send_wr{.from = from.gather()}).value();

  wait_for_success(pair.b.qp.recv_cq());
  wait_for_success(pair.a.qp.send_cq());
  EXPECT_TRUE(same_bytes(into.bytes(), from.bytes()));
}

TEST_F(destruction, with_work_in_flight_is_safe_in_any_order) {
  const log_capture log;
  // What ends first: a side's queue pair, its memory, or everything of the peer.
  for (int round = 0; round < 12; ++round) {
    connected_pair pair;
    auto local = pair.a.local_memory(256UZ * 1024);
    auto remote = pair.b.shared_memory(256UZ * 1024);
    auto inbox = pair.b.local_memory(4096);
    pair.b.qp.post(recv_wr{.into = inbox.scatter()}).value();
    for (int i = 0; i < 4; ++i) {
      pair.a.qp.post(read_wr{.from = remote.remote(), .into = local.scatter()}).value();
      pair.a.qp.post(write_wr{.from = local.gather(), .to = remote.remote()}).value();
    }
    switch (round % 4) {
      case 0:
        pair.a.qp = {};
        break;
      case 1:
        local = {};
        break;
      case 2:
        remote = {};
        break;
      default:
        pair.b = {};
        break;
    }
  }
  EXPECT_TRUE(log.lines().empty()) << log.lines().front();
}

TEST_F(destruction, of_a_region_ends_the_peers_writes_to_it) {
  constexpr std::size_t bytes = 64UZ * 1024;
  connected_pair pair;
  const auto from = pair.a.local_memory(bytes);
  fill_pattern(from.bytes(), 1);
  auto buffer = std::make_unique<std::array<std::byte, bytes>>();
  buffer->fill({});
  auto target = pair.b.pd.register_shared(unsafe, *buffer, access::remote_write).value();
  std::size_t posted = 0;
  for (; posted < 32; ++posted) {
    if (!pair.a.qp.post(write_wr{.from = from.gather(), .to = target.remote()})) break;
  }

  target = {};
  const auto at_the_end = *buffer;

  // The queue pair ends with the first refusal; the rest is flushed.
  pair.a.qp.drain().value();
  EXPECT_TRUE(same_bytes(*buffer, at_the_end))
      << "the device wrote to memory that is no longer registered";
  buffer.reset();
}

TEST_F(destruction, of_a_queue_pair_ends_the_devices_writes_to_its_buffers) {
  constexpr std::size_t bytes = 256UZ * 1024;
  connected_pair pair;
  const auto remote = pair.b.shared_memory(bytes);
  fill_pattern(remote.bytes(), 1);
  const auto local = pair.a.local_memory(bytes);
  for (int i = 0; i < 8; ++i) {
    pair.a.qp.post(read_wr{.from = remote.remote(), .into = local.scatter()}).value();
  }

  pair.a.qp = {};
  const std::vector<std::byte> at_the_end(local.bytes().begin(), local.bytes().end());
  pair.b.qp.drain().value();

  EXPECT_TRUE(same_bytes(local.bytes(), at_the_end));
}

TEST_F(destruction, of_a_borrowed_object_is_left_to_its_owner) {
  ibv_context* const native = ibv_open_device(dut.open().native()->device);
  ASSERT_NE(native, nullptr);
  ibv_pd* const native_pd = ibv_alloc_pd(native);
  ASSERT_NE(native_pd, nullptr);

  {
    const auto ctx = context::adopt(native, {.kind = ownership::borrowed}).value();
    const auto pd = protection_domain::adopt(native_pd, ctx, {.kind = ownership::borrowed}).value();
    EXPECT_TRUE(pd.allocate_local({.bytes = 64}).has_value());
  }

  EXPECT_EQ(ibv_dealloc_pd(native_pd), 0)
      << "the domain was destroyed by a handle that had only borrowed it";
  EXPECT_EQ(ibv_close_device(native), 0);
}

TEST_F(destruction, of_an_adopted_object_releases_what_it_was_told_to_keep_alive) {
  ibv_context* const native = ibv_open_device(dut.open().native()->device);
  ASSERT_NE(native, nullptr);
  auto token = std::make_shared<int>(1);
  const std::weak_ptr<int> watch = token;
  auto ctx = context::adopt(native, {.keep_alive = std::move(token)}).value();
  auto pd = ctx.alloc_pd().value();

  ctx = {};
  EXPECT_FALSE(watch.expired()) << "the domain still needs the context";
  pd = {};

  EXPECT_TRUE(watch.expired());
}

TEST_F(destruction, that_the_device_refuses_is_logged_and_leaks) {
  ibv_context* const native = ibv_open_device(dut.open().native()->device);
  ASSERT_NE(native, nullptr);
  ibv_pd* const native_pd = ibv_alloc_pd(native);
  ASSERT_NE(native_pd, nullptr);
  std::array<std::byte, 64> buffer{};
  const int rights = IBV_ACCESS_LOCAL_WRITE;
  ibv_mr* const in_the_way = ibv_reg_mr(native_pd, buffer.data(), buffer.size(), rights);
  ASSERT_NE(in_the_way, nullptr);
  const log_capture log;

  {
    const intended_leak leak;
    const auto ctx = context::adopt(native, {.kind = ownership::borrowed}).value();
    const auto pd = protection_domain::adopt(native_pd, ctx).value();
  }

  const auto lines = log.lines();
  ASSERT_EQ(lines.size(), 1U);
  EXPECT_NE(lines[0].find("ibv_dealloc_pd"), std::string::npos) << lines[0];
  EXPECT_NE(lines[0].find(dut.name()), std::string::npos) << lines[0];
  EXPECT_NE(lines[0].find("[errno " + std::to_string(EBUSY) + "]"), std::string::npos) << lines[0];
  EXPECT_EQ(ibv_dereg_mr(in_the_way), 0);
  EXPECT_EQ(ibv_dealloc_pd(native_pd), 0) << "it was leaked, not destroyed";
  EXPECT_EQ(ibv_close_device(native), 0);
}

TEST_F(destruction, of_a_region_that_the_device_refuses_keeps_its_buffer) {
  if (dut.attributes().max_mw == 0)
    GTEST_SKIP() << "the device lacks memory windows, with which a region is pinned here";
  constexpr std::size_t bytes = 4096;
  auto kept = std::make_unique<connected_pair>();
  auto& side = kept->a;
  const log_capture log;
  ibv_mr* native = nullptr;
  ibv_mw* const window = ibv_alloc_mw(side.pd.native(), IBV_MW_TYPE_1);
  ASSERT_NE(window, nullptr);
  std::byte* page = nullptr;
  {
    const intended_leak leak;
    auto region =
        side.pd.allocate_shared(unsafe, {.bytes = bytes}, access::mw_bind | access::remote_write)
            .value();
    native = region.native();
    page = region.data();
    ibv_mw_bind binding{};
    binding.send_flags = IBV_SEND_SIGNALED;
    binding.bind_info = {.mr = native,
                         .addr = reinterpret_cast<std::uintptr_t>(page),
                         .length = bytes,
                         .mw_access_flags = IBV_ACCESS_REMOTE_WRITE};
    ASSERT_EQ(ibv_bind_mw(side.qp.native(), window, &binding), 0);
    wait_for_success(side.send_cq);
    region = {};
  }

  ASSERT_EQ(log.lines().size(), 1U);
  EXPECT_NE(log.lines()[0].find("ibv_dereg_mr"), std::string::npos) << log.lines()[0];
  unsigned char resident = 0;
  EXPECT_EQ(::mincore(page, bytes, &resident), 0) << "the buffer was unmapped under the device";

  EXPECT_EQ(ibv_dealloc_mw(window), 0);
  EXPECT_EQ(ibv_dereg_mr(native), 0);
  EXPECT_EQ(::munmap(page, bytes), 0);
}

TEST_F(destruction, of_empty_handles_does_nothing) {
  const context ctx;
  const protection_domain pd;
  const completion_channel channel;
  const completion_queue cq;
  const queue_pair qp;
  const memory_region region;
  const address_handle ah;

  EXPECT_FALSE(ctx || pd || channel || cq || qp || region || ah);
}

TEST_F(destruction, of_a_handle_by_assignment_ends_the_old_object) {
  const auto ctx = dut.open();
  const auto pd = ctx.alloc_pd().value();
  const auto before = open_descriptors();
  auto channel = ctx.create_completion_channel().value();
  EXPECT_EQ(open_descriptors().size(), before.size() + 1);

  channel = ctx.create_completion_channel().value();

  EXPECT_EQ(open_descriptors().size(), before.size() + 1);
}

}  // namespace
}  // namespace rdmaxx::device_tests
