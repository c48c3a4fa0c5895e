// Faults that a test has asked for, through the C function alone.

#include <array>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <infiniband/verbs.h>
#include <softverbs/softverbs.h>

#include "connected_pair.hpp"
#include "device/byte_pattern.hpp"
#include "owned.hpp"
#include "requests.hpp"
#include "waiting.hpp"

namespace softverbs::device_tests {

namespace {

using namespace std::chrono_literals;
using rdmaxx::device_tests::fill_pattern;
using rdmaxx::device_tests::same_bytes;

/// The rules, until the end of the scope.
class faults {
 public:
  explicit faults(const std::string& rules) {
    if (::softverbs_faults(rules.c_str()) != 0)
      throw std::invalid_argument(::softverbs_faults_problem());
  }
  faults(const faults&) = delete;
  faults& operator=(const faults&) = delete;
  ~faults() { ::softverbs_faults(nullptr); }

  [[nodiscard]] std::uint64_t hits(std::size_t rule = 0) const {
    return ::softverbs_faults_hits(rule);
  }
};

/// One message of 20 packets, checked.
void expect_transfer(const connected_pair& pair) {
  buffer from(pair.a.domain(), 20 * 1024);
  buffer to(pair.b.domain(), 20 * 1024);
  fill_pattern(from.bytes(), 3);
  ASSERT_EQ(post_receive(pair.b.qp.get(), 1, {to.sge()}), 0);
  ASSERT_EQ(send(2, {from.sge()}).post(pair.a.qp.get()), 0);
  EXPECT_EQ(wait_for_success(pair.b.recv_cq.get()).byte_len, 20 * 1024U);
  wait_for_success(pair.a.send_cq.get());
  EXPECT_TRUE(same_bytes(to.bytes(), from.bytes()));
}

TEST(faults, of_packets_are_mended_by_the_transport) {
  for (const std::string rule :
       {"lose op=SEND nth=7", "lose op=ACK nth=1", "duplicate op=SEND nth=7",
        "corrupt op=SEND nth=7", "reorder op=SEND nth=7", "delay=2ms op=SEND nth=7"}) {
    SCOPED_TRACE(rule);
    const connected_pair pair;
    const faults injected(rule);
    expect_transfer(pair);
    EXPECT_EQ(injected.hits(), 1U);
  }
}

TEST(faults, strike_the_queue_pair_that_they_name) {
  const connected_pair one({.timeout = 10, .retry_cnt = 1});
  const connected_pair other;
  const faults injected("lose qp=" + std::to_string(one.a.qp->qp_num));
  const buffer from(one.a.domain(), 8);
  ASSERT_EQ(send(1, {from.sge()}).post(one.a.qp.get()), 0);

  expect_transfer(other);
  EXPECT_EQ(wait_for_one(one.a.send_cq.get()).status, IBV_WC_RETRY_EXC_ERR);
}

TEST(faults, complete_an_operation_with_any_status) {
  for (const auto status :
       {IBV_WC_LOC_LEN_ERR, IBV_WC_LOC_QP_OP_ERR, IBV_WC_LOC_PROT_ERR, IBV_WC_BAD_RESP_ERR,
        IBV_WC_REM_INV_REQ_ERR, IBV_WC_REM_ACCESS_ERR, IBV_WC_REM_OP_ERR, IBV_WC_RETRY_EXC_ERR,
        IBV_WC_RNR_RETRY_EXC_ERR, IBV_WC_REM_ABORT_ERR, IBV_WC_FATAL_ERR, IBV_WC_GENERAL_ERR}) {
    SCOPED_TRACE(ibv_wc_status_str(status));
    connected_pair pair;
    buffer from(pair.a.domain(), 8);
    buffer to(pair.b.domain(), 8);
    fill_pattern(from.bytes(), 1);
    const faults injected("complete=" + std::to_string(status) + " op=WRITE nth=2");
    for (std::uint64_t id = 1; id <= 3; ++id) {
      ASSERT_EQ(write(id, {from.sge()}, to.address(), to.rkey()).post(pair.a.qp.get()), 0);
    }

    const auto found = wait_for(pair.a.send_cq.get(), 3);
    EXPECT_EQ(found[0].status, IBV_WC_SUCCESS);
    EXPECT_EQ(found[1].status, status);
    EXPECT_EQ(found[1].wr_id, 2U);
    EXPECT_EQ(found[2].status, IBV_WC_WR_FLUSH_ERR);
    EXPECT_EQ(state_of(pair.a.qp.get()), IBV_QPS_ERR);
    EXPECT_TRUE(same_bytes(to.bytes(), from.bytes())) << "the first one was carried out";
  }
}

TEST(faults, complete_a_receive_with_any_status) {
  const connected_pair pair;
  const buffer from(pair.a.domain(), 8);
  const buffer to(pair.b.domain(), 8);
  const faults injected("complete=LOC_PROT_ERR op=RECV nth=2");
  for (std::uint64_t id = 1; id <= 3; ++id) {
    ASSERT_EQ(post_receive(pair.b.qp.get(), id, {to.sge()}), 0);
  }
  ASSERT_EQ(send(1, {from.sge()}).post(pair.a.qp.get()), 0);
  ASSERT_EQ(send(2, {from.sge()}).post(pair.a.qp.get()), 0);

  const auto found = wait_for(pair.b.recv_cq.get(), 3);
  EXPECT_EQ(found[0].status, IBV_WC_SUCCESS);
  EXPECT_EQ(found[1].status, IBV_WC_LOC_PROT_ERR);
  EXPECT_EQ(found[2].status, IBV_WC_WR_FLUSH_ERR);
  EXPECT_EQ(state_of(pair.b.qp.get()), IBV_QPS_ERR);
}

TEST(faults, break_each_queue_pair_at_its_nth_operation) {
  const faults injected("break op=SEND nth=2 per_qp");
  for (int round = 0; round < 2; ++round) {
    const connected_pair pair;
    const buffer from(pair.a.domain(), 8);
    const buffer to(pair.b.domain(), 8);
    ASSERT_EQ(post_receive(pair.b.qp.get(), 1, {to.sge()}), 0);
    ASSERT_EQ(post_receive(pair.a.qp.get(), 9, {from.sge()}), 0);
    for (std::uint64_t id = 1; id <= 2; ++id) {
      ASSERT_EQ(send(id, {from.sge()}).post(pair.a.qp.get()), 0);
    }

    const auto found = wait_for(pair.a.send_cq.get(), 2);
    EXPECT_EQ(found[0].status, IBV_WC_SUCCESS);
    EXPECT_EQ(found[1].status, IBV_WC_WR_FLUSH_ERR);
    EXPECT_EQ(wait_for_one(pair.a.recv_cq.get()).status, IBV_WC_WR_FLUSH_ERR);
    auto event = wait_for_event(pair.context, IBV_EVENT_QP_FATAL);
    EXPECT_EQ(event.element.qp, pair.a.qp.get());
    ibv_ack_async_event(&event);
  }
  EXPECT_EQ(injected.hits(), 2U);
}

TEST(faults, make_functions_fail_at_their_nth_call) {
  const auto context = open_device();
  const auto pd = own(ibv_alloc_pd(context.get()));
  std::array<std::byte, 64> memory{};
  const faults injected("fail=ENOMEM call=ibv_reg_mr nth=2; fail=EMFILE call=ibv_create_cq");
  const auto reg = [&] { return ibv_reg_mr(pd.get(), memory.data(), memory.size(), all_access); };

  const auto first = own(reg());
  errno = 0;
  EXPECT_EQ(reg(), nullptr);
  EXPECT_EQ(errno, ENOMEM);
  const auto third = own(reg());
  errno = 0;
  EXPECT_EQ(ibv_create_cq(context.get(), 1, nullptr, nullptr, 0), nullptr);
  EXPECT_EQ(errno, EMFILE);
}

TEST(faults, reach_every_function_that_they_can_name) {
  const connected_pair pair({.srq_requests = 4});
  const auto pd = pair.a.domain();
  const buffer memory(pd, 64);
  ibv_device* const device = pair.context->device;
  int number = 0;
  const auto listed = std::unique_ptr<ibv_device*, decltype(&ibv_free_device_list)>(
      ibv_get_device_list(&number), ibv_free_device_list);
  ibv_srq_init_attr srq{.srq_context = nullptr,
                        .attr = {.max_wr = 1, .max_sge = 1, .srq_limit = 0}};
  ibv_qp_init_attr qp{};
  qp.send_cq = qp.recv_cq = pair.a.send_cq.get();
  qp.qp_type = IBV_QPT_RC;
  ibv_ah_attr ah{};
  ibv_gid gid{};
  ibv_xrcd_init_attr xrcd{};
  const auto null = [](const auto* made) { return made == nullptr ? errno : 0; };
  const std::vector<std::pair<std::string, std::function<int()>>> calls{
      {"ibv_open_device", [&] { return null(ibv_open_device(device)); }},
      {"ibv_alloc_pd", [&] { return null(ibv_alloc_pd(pair.context)); }},
      {"ibv_reg_mr", [&] { return null(ibv_reg_mr(pd, memory.mr->addr, 8, 0)); }},
      {"ibv_rereg_mr",
       [&] {
         const int failed =
             ibv_rereg_mr(memory.mr.get(), IBV_REREG_MR_CHANGE_ACCESS, nullptr, nullptr, 0, 0);
         return failed != 0 ? errno : 0;
       }},
      {"ibv_alloc_mw", [&] { return null(ibv_alloc_mw(pd, IBV_MW_TYPE_1)); }},
      {"ibv_create_comp_channel", [&] { return null(ibv_create_comp_channel(pair.context)); }},
      {"ibv_create_cq", [&] { return null(ibv_create_cq(pair.context, 1, nullptr, nullptr, 0)); }},
      {"ibv_resize_cq", [&] { return ibv_resize_cq(pair.a.send_cq.get(), 300); }},
      {"ibv_create_srq", [&] { return null(ibv_create_srq(pd, &srq)); }},
      {"ibv_create_qp", [&] { return null(ibv_create_qp(pd, &qp)); }},
      {"ibv_modify_qp", [&] { return to_state(IBV_QPS_ERR).apply(pair.b.qp.get()); }},
      {"ibv_create_ah", [&] { return null(ibv_create_ah(pd, &ah)); }},
      {"ibv_attach_mcast", [&] { return ibv_attach_mcast(pair.a.qp.get(), &gid, 0); }},
      {"ibv_post_send", [&] { return send(1, {memory.sge()}).post(pair.a.qp.get()); }},
      {"ibv_post_recv", [&] { return post_receive(pair.a.qp.get(), 1, {memory.sge()}); }},
      {"ibv_post_srq_recv", [&] { return post_receive(pair.a.srq.get(), 1, {memory.sge()}); }},
      {"ibv_open_xrcd", [&] { return null(ibv_open_xrcd(pair.context, &xrcd)); }},
  };
  for (const auto& [name, call] : calls) {
    SCOPED_TRACE(name);
    const faults injected("fail=EXDEV call=" + name);
    errno = 0;
    EXPECT_EQ(call(), EXDEV);
    EXPECT_EQ(injected.hits(), 1U);
  }
}

TEST(faults, bring_the_port_down_and_up) {
  connected_pair pair({.timeout = 14});
  discard_events(pair.context);
  const auto port_state = [&] {
    ibv_port_attr port{};
    EXPECT_EQ(ibv_query_port(pair.context, 1, &port), 0);
    return port.state;
  };
  const buffer from(pair.a.domain(), 8);
  buffer to(pair.b.domain(), 8);
  const faults injected("port_down op=WRITE nth=1 for=50ms");
  ASSERT_EQ(write(1, {from.sge()}, to.address(), to.rkey()).post(pair.a.qp.get()), 0);

  EXPECT_EQ(port_state(), IBV_PORT_DOWN);
  auto down = wait_for_event(pair.context, IBV_EVENT_PORT_ERR);
  ibv_ack_async_event(&down);
  EXPECT_TRUE(completions_in(pair.a.send_cq.get()).empty());
  auto up = wait_for_event(pair.context, IBV_EVENT_PORT_ACTIVE);
  ibv_ack_async_event(&up);
  EXPECT_EQ(port_state(), IBV_PORT_ACTIVE);
  wait_for_success(pair.a.send_cq.get());
}

TEST(faults, freeze_a_device_for_a_while) {
  const connected_pair pair;
  const buffer from(pair.a.domain(), 8);
  const buffer to(pair.b.domain(), 8);
  ASSERT_EQ(post_receive(pair.b.qp.get(), 1, {to.sge()}), 0);
  const auto start = std::chrono::steady_clock::now();
  const faults injected("freeze op=SEND nth=1 for=60ms");
  ASSERT_EQ(send(1, {from.sge()}).post(pair.a.qp.get()), 0);

  EXPECT_TRUE(completions_in(pair.b.recv_cq.get()).empty());
  wait_for_success(pair.b.recv_cq.get());
  wait_for_success(pair.a.send_cq.get());
  EXPECT_GE(std::chrono::steady_clock::now() - start, 60ms);
}

TEST(faults, end_a_freeze_with_the_plan) {
  const connected_pair pair;
  const buffer from(pair.a.domain(), 8);
  const buffer to(pair.b.domain(), 8);
  ASSERT_EQ(post_receive(pair.b.qp.get(), 1, {to.sge()}), 0);
  {
    const faults injected("freeze op=SEND nth=1");
    ASSERT_EQ(send(1, {from.sge()}).post(pair.a.qp.get()), 0);
    EXPECT_TRUE(completions_in(pair.b.recv_cq.get()).empty());
  }
  wait_for_success(pair.b.recv_cq.get());
  wait_for_success(pair.a.send_cq.get());
}

TEST(faults, that_are_not_understood_change_nothing_and_say_why) {
  const faults injected("fail=EXDEV call=ibv_alloc_pd");
  EXPECT_EQ(::softverbs_faults("lose op=SNED"), EINVAL);
  EXPECT_THAT(::softverbs_faults_problem(), ::testing::HasSubstr("SNED"));
  const auto context = open_device();
  EXPECT_EQ(ibv_alloc_pd(context.get()), nullptr);
  EXPECT_EQ(injected.hits(), 1U);
}

}  // namespace

}  // namespace softverbs::device_tests
