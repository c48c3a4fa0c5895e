// What goes wrong between two queue pairs: no receive, no peer, and what the peer refuses.

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>

#include <gtest/gtest.h>
#include <infiniband/verbs.h>

#include "connected_pair.hpp"
#include "device/byte_pattern.hpp"
#include "owned.hpp"
#include "requests.hpp"
#include "waiting.hpp"

namespace softverbs::device_tests {

namespace {

using namespace std::chrono_literals;
using rdmaxx::device_tests::all_zero;
using rdmaxx::device_tests::fill_pattern;
using rdmaxx::device_tests::same_bytes;
using clock = std::chrono::steady_clock;

/// The first completion has this status, the others were flushed.
void expect_failure(ibv_cq* cq, std::size_t count, ibv_wc_status first) {
  const auto found = wait_for(cq, count);
  for (std::size_t i = 0; i < count; ++i) {
    EXPECT_EQ(found[i].wr_id, i);
    EXPECT_EQ(found[i].status, i == 0 ? first : IBV_WC_WR_FLUSH_ERR);
  }
}

TEST(receiver_not_ready, without_retries_fails_at_once) {
  const connected_pair pair({.rnr_retry = 0});
  const buffer from(pair.a.domain(), 8);
  ASSERT_EQ(post_receive(pair.a.qp.get(), 7, {}), 0);
  for (std::uint64_t id = 0; id < 3; ++id) {
    ASSERT_EQ(send(id, {from.sge()}).post(pair.a.qp.get()), 0);
  }

  expect_failure(pair.a.send_cq.get(), 3, IBV_WC_RNR_RETRY_EXC_ERR);
  EXPECT_EQ(state_of(pair.a.qp.get()), IBV_QPS_ERR);
  EXPECT_EQ(wait_for_one(pair.a.recv_cq.get()).status, IBV_WC_WR_FLUSH_ERR);
  EXPECT_EQ(state_of(pair.b.qp.get()), IBV_QPS_RTS) << "the receiver is not to blame";
}

TEST(receiver_not_ready, each_retry_waits_as_long_as_the_receiver_asked) {
  constexpr std::uint8_t two_milliseconds = 15;  // 1.92 ms
  const connected_pair pair({.min_rnr_timer = two_milliseconds, .rnr_retry = 3});
  const buffer from(pair.a.domain(), 8);
  const auto start = clock::now();
  ASSERT_EQ(send(0, {from.sge()}).post(pair.a.qp.get()), 0);

  expect_failure(pair.a.send_cq.get(), 1, IBV_WC_RNR_RETRY_EXC_ERR);
  EXPECT_GE(clock::now() - start, 3 * 1920us);
}

TEST(receiver_not_ready, seven_waits_for_ever) {
  connected_pair pair({.min_rnr_timer = 1, .rnr_retry = 7});
  buffer from(pair.a.domain(), 8000);
  buffer to(pair.b.domain(), 8000);
  fill_pattern(from.bytes(), 1);
  ASSERT_EQ(send(1, {from.sge()}).post(pair.a.qp.get()), 0);
  ASSERT_EQ(write(2, {from.sge(0, 10)}, to.address(), to.rkey()).imm(1).post(pair.a.qp.get()), 0);
  // A hundred times what one wait takes.
  for (const auto end = clock::now() + 1ms; clock::now() < end;) {
    ASSERT_TRUE(completions_in(pair.a.send_cq.get()).empty());
  }

  ASSERT_EQ(post_receive(pair.b.qp.get(), 3, {to.sge()}), 0);
  EXPECT_EQ(wait_for_success(pair.b.recv_cq.get()).wr_id, 3U);
  EXPECT_EQ(wait_for_success(pair.a.send_cq.get()).wr_id, 1U);
  EXPECT_TRUE(same_bytes(to.bytes(), from.bytes()));
  ASSERT_EQ(post_receive(pair.b.qp.get(), 4, {}), 0);
  EXPECT_EQ(wait_for_success(pair.b.recv_cq.get()).opcode, IBV_WC_RECV_RDMA_WITH_IMM);
  EXPECT_EQ(wait_for_success(pair.a.send_cq.get()).wr_id, 2U);
}

TEST(a_missing_peer, is_given_up_after_all_retries) {
  constexpr std::uint8_t timeout = 10;
  constexpr std::uint8_t retries = 3;
  connected_pair pair({.timeout = timeout, .retry_cnt = retries});
  const buffer from(pair.a.domain(), 5000);
  ASSERT_EQ(post_receive(pair.a.qp.get(), 9, {}), 0);
  pair.b.qp = nullptr;
  const auto start = clock::now();
  for (std::uint64_t id = 0; id < 3; ++id) {
    ASSERT_EQ(send(id, {from.sge()}).post(pair.a.qp.get()), 0);
  }

  expect_failure(pair.a.send_cq.get(), 3, IBV_WC_RETRY_EXC_ERR);
  EXPECT_GE(clock::now() - start, 4096ns * (1U << timeout) * (retries + 1));
  EXPECT_EQ(state_of(pair.a.qp.get()), IBV_QPS_ERR);
  EXPECT_EQ(wait_for_one(pair.a.recv_cq.get()).status, IBV_WC_WR_FLUSH_ERR);
}

TEST(a_missing_peer, is_given_up_by_reads_and_atomics_too) {
  for (const bool atomic : {false, true}) {
    connected_pair pair({.timeout = 8, .retry_cnt = 1});
    const buffer into(pair.a.domain(), 8);
    pair.b.qp = nullptr;
    auto wanted = atomic ? fetch_add(0, into.sge(), 4096, 1, 1) : read(0, {into.sge()}, 4096, 1);
    ASSERT_EQ(wanted.post(pair.a.qp.get()), 0);
    expect_failure(pair.a.send_cq.get(), 1, IBV_WC_RETRY_EXC_ERR);
  }
}

TEST(a_missing_peer, that_has_never_been_there_is_the_same) {
  const pair_options options{.timeout = 8, .retry_cnt = 1};
  const auto context = open_device();
  const side lonely(context.get(), options);
  connect(lonely.qp.get(), lonely.qp->qp_num + 1, options);
  ASSERT_EQ(send(0, {}).post(lonely.qp.get()), 0);
  expect_failure(lonely.send_cq.get(), 1, IBV_WC_RETRY_EXC_ERR);
}

TEST(a_silent_peer, that_is_not_ready_to_receive_does_not_answer) {
  const pair_options options{.timeout = 8, .retry_cnt = 1};
  const auto context = open_device();
  const side a(context.get(), options);
  const side b(context.get(), options);
  connect(a.qp.get(), b.qp->qp_num, options);
  ASSERT_EQ(to_init(IBV_QPT_RC, options).apply(b.qp.get()), 0);
  ASSERT_EQ(send(0, {}).post(a.qp.get()), 0);
  expect_failure(a.send_cq.get(), 1, IBV_WC_RETRY_EXC_ERR);
}

TEST(a_refusal, of_a_message_that_is_longer_than_its_receive) {
  for (const std::size_t bytes : {101U, 5000U}) {
    connected_pair pair;
    const buffer from(pair.a.domain(), 5000);
    buffer to(pair.b.domain(), 5000);
    ASSERT_EQ(post_receive(pair.b.qp.get(), 0, {to.sge(0, 40), to.sge(40, 60)}), 0);
    ASSERT_EQ(post_receive(pair.b.qp.get(), 1, {to.sge()}), 0);
    ASSERT_EQ(send(0, {from.sge(0, bytes)}).post(pair.a.qp.get()), 0);
    ASSERT_EQ(send(1, {from.sge(0, 8)}).post(pair.a.qp.get()), 0);

    expect_failure(pair.a.send_cq.get(), 2, IBV_WC_REM_INV_REQ_ERR);
    expect_failure(pair.b.recv_cq.get(), 2, IBV_WC_LOC_LEN_ERR);
    EXPECT_EQ(state_of(pair.a.qp.get()), IBV_QPS_ERR);
    EXPECT_EQ(state_of(pair.b.qp.get()), IBV_QPS_ERR);
    EXPECT_TRUE(all_zero(to.bytes(100, 4900)));
  }
}

TEST(a_refusal, of_access_comes_after_what_was_posted_before) {
  const connected_pair pair;
  buffer from(pair.a.domain(), 3000);
  buffer to(pair.b.domain(), 3000);
  fill_pattern(from.bytes(), 1);
  ASSERT_EQ(write(8, {from.sge()}, to.address(), to.rkey()).post(pair.a.qp.get()), 0);
  ASSERT_EQ(write(0, {from.sge()}, to.address(1), to.rkey()).post(pair.a.qp.get()), 0);
  ASSERT_EQ(write(1, {from.sge()}, to.address(), to.rkey()).post(pair.a.qp.get()), 0);

  EXPECT_EQ(wait_for_success(pair.a.send_cq.get()).wr_id, 8U);
  expect_failure(pair.a.send_cq.get(), 2, IBV_WC_REM_ACCESS_ERR);
  EXPECT_TRUE(same_bytes(to.bytes(), from.bytes()));
  EXPECT_EQ(state_of(pair.b.qp.get()), IBV_QPS_ERR);
}

TEST(a_refusal, of_an_atomic_that_is_not_aligned) {
  const connected_pair pair;
  const buffer into(pair.a.domain(), 8);
  const buffer cell(pair.b.domain(), 16);
  ASSERT_EQ(fetch_add(0, into.sge(), cell.address(4), cell.rkey(), 1).post(pair.a.qp.get()), 0);
  expect_failure(pair.a.send_cq.get(), 1, IBV_WC_REM_INV_REQ_ERR);
}

TEST(a_refusal, of_a_receive_that_the_device_cannot_fill) {
  const connected_pair pair;
  const buffer from(pair.a.domain(), 8);
  auto to = std::make_unique<buffer>(pair.b.domain(), 8);
  ASSERT_EQ(post_receive(pair.b.qp.get(), 0, {to->sge()}), 0);
  to = nullptr;  // its registration has gone
  ASSERT_EQ(send(0, {from.sge()}).post(pair.a.qp.get()), 0);

  expect_failure(pair.a.send_cq.get(), 1, IBV_WC_REM_OP_ERR);
  expect_failure(pair.b.recv_cq.get(), 1, IBV_WC_LOC_PROT_ERR);
}

}  // namespace
}  // namespace softverbs::device_tests
