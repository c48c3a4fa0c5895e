// SRQ: receives for several queue pairs, with a call for more.

#include <cerrno>
#include <cstdint>
#include <vector>

#include <gtest/gtest.h>
#include <infiniband/verbs.h>

#include "connected_pair.hpp"
#include "device/byte_pattern.hpp"
#include "owned.hpp"
#include "requests.hpp"
#include "waiting.hpp"

namespace softverbs::device_tests {

namespace {

using rdmaxx::device_tests::fill_pattern;
using rdmaxx::device_tests::same_bytes;

class shared_receive_queues : public testing::Test {
 protected:
  void SetUp() override { fill_pattern(here_.bytes(), 1); }

  void post(int count) {
    for (int i = 0; i < count; ++i) {
      ASSERT_EQ(post_receive(srq_, static_cast<std::uint64_t>(i), {there_.sge()}), 0);
    }
  }
  void take(int count) {
    for (int i = 0; i < count; ++i) {
      ASSERT_EQ(send(1, {here_.sge(0, 8)}).post(pair_.a.qp.get()), 0);
      wait_for_success(pair_.a.send_cq.get());
      wait_for_success(pair_.b.recv_cq.get());
    }
  }
  [[nodiscard]] int modify(std::uint32_t max_wr, std::uint32_t limit, int mask) {
    ibv_srq_attr wanted{.max_wr = max_wr, .max_sge = 0, .srq_limit = limit};
    return ibv_modify_srq(srq_, &wanted, mask);
  }
  [[nodiscard]] ibv_srq_attr query() {
    ibv_srq_attr found{};
    EXPECT_EQ(ibv_query_srq(srq_, &found), 0);
    return found;
  }

  connected_pair pair_{pair_options{.srq_requests = 16}};
  ibv_srq* srq_ = pair_.b.srq.get();
  buffer here_{pair_.a.domain(), 4096};
  buffer there_{pair_.b.domain(), 4096};
};

TEST_F(shared_receive_queues, messages_are_received_in_the_order_of_the_requests) {
  ASSERT_EQ(post_receive(srq_, 1, {there_.sge(0, 10), there_.sge(100, 2000)}), 0);
  ASSERT_EQ(post_receive(srq_, 2, {there_.sge(3000, 100)}), 0);

  ASSERT_EQ(send(1, {here_.sge(0, 2010)}).post(pair_.a.qp.get()), 0);
  ASSERT_EQ(send(2, {here_.sge(7, 100)}).post(pair_.a.qp.get()), 0);

  const auto got = wait_for_successes(pair_.b.recv_cq.get(), 2);
  EXPECT_EQ(got[0].wr_id, 1U);
  EXPECT_EQ(got[1].wr_id, 2U);
  EXPECT_EQ(got[0].qp_num, pair_.b.qp->qp_num);
  wait_for_successes(pair_.a.send_cq.get(), 2);
  EXPECT_TRUE(same_bytes(there_.bytes(0, 10), here_.bytes(0, 10)));
  EXPECT_TRUE(same_bytes(there_.bytes(100, 2000), here_.bytes(10, 2000)));
  EXPECT_TRUE(same_bytes(there_.bytes(3000, 100), here_.bytes(7, 100)));
}

TEST_F(shared_receive_queues, the_call_for_more_comes_once_for_each_arming) {
  post(8);
  ASSERT_EQ(modify(0, 4, IBV_SRQ_LIMIT), 0);
  EXPECT_EQ(query().srq_limit, 4U);
  take(4);
  EXPECT_FALSE(is_readable(pair_.context->async_fd)) << "4 are left";

  take(1);
  auto event = wait_for_event(pair_.context, IBV_EVENT_SRQ_LIMIT_REACHED);
  EXPECT_EQ(event.element.srq, srq_);
  ibv_ack_async_event(&event);
  EXPECT_EQ(query().srq_limit, 0U) << "disarmed";
  take(3);
  EXPECT_FALSE(is_readable(pair_.context->async_fd));

  post(4);
  ASSERT_EQ(modify(0, 4, IBV_SRQ_LIMIT), 0);
  take(1);
  event = wait_for_event(pair_.context, IBV_EVENT_SRQ_LIMIT_REACHED);
  ibv_ack_async_event(&event);
}

TEST_F(shared_receive_queues, the_capacity_changes_and_keeps_what_is_queued) {
  EXPECT_EQ(query().max_wr, 16U);
  EXPECT_EQ(query().max_sge, 4U);
  post(16);
  EXPECT_EQ(post_receive(srq_, 1, {there_.sge()}), ENOMEM);

  ASSERT_EQ(modify(40, 0, IBV_SRQ_MAX_WR), 0);
  EXPECT_EQ(query().max_wr, 40U);
  post(24);
  EXPECT_EQ(post_receive(srq_, 1, {there_.sge()}), ENOMEM);
  EXPECT_EQ(modify(39, 0, IBV_SRQ_MAX_WR), EINVAL) << "40 are queued";
  take(40);
}

TEST_F(shared_receive_queues, changes_that_cannot_be_are_refused) {
  ibv_device_attr device{};
  ASSERT_EQ(ibv_query_device(pair_.context, &device), 0);
  EXPECT_EQ(modify(0, 17, IBV_SRQ_LIMIT), EINVAL);
  EXPECT_EQ(modify(0, 0, IBV_SRQ_MAX_WR), EINVAL);
  EXPECT_EQ(modify(static_cast<std::uint32_t>(device.max_srq_wr) + 1, 0, IBV_SRQ_MAX_WR), EINVAL);
  EXPECT_EQ(modify(16, 0, 1 << 10), EINVAL);
  EXPECT_EQ(query().max_wr, 16U);
  EXPECT_EQ(query().srq_limit, 0U);
}

TEST_F(shared_receive_queues, a_request_that_cannot_be_is_refused_with_all_behind_it) {
  std::vector<ibv_sge> five(5, there_.sge(0, 8));
  EXPECT_EQ(post_receive(srq_, 1, five), EINVAL);

  ibv_recv_wr third{.wr_id = 3, .next = nullptr, .sg_list = five.data(), .num_sge = 1};
  ibv_recv_wr second{.wr_id = 2, .next = &third, .sg_list = five.data(), .num_sge = 5};
  ibv_recv_wr first{.wr_id = 1, .next = &second, .sg_list = five.data(), .num_sge = 1};
  ibv_recv_wr* bad = nullptr;
  EXPECT_EQ(ibv_post_srq_recv(srq_, &first, &bad), EINVAL);
  EXPECT_EQ(bad, &second);
  take(1);
  ASSERT_EQ(post_receive(srq_, 4, {there_.sge()}), 0);
  ASSERT_EQ(send(1, {here_.sge(0, 8)}).post(pair_.a.qp.get()), 0);
  EXPECT_EQ(wait_for_success(pair_.b.recv_cq.get()).wr_id, 4U) << "the third was not taken";
}

TEST_F(shared_receive_queues, its_queue_pair_has_no_receives_of_its_own) {
  EXPECT_EQ(post_receive(pair_.b.qp.get(), 1, {there_.sge()}), EINVAL);
  EXPECT_EQ(attributes_of(pair_.b.qp.get()).cap.max_recv_wr, 0U);
}

TEST_F(shared_receive_queues, a_failed_queue_pair_says_that_it_takes_no_more_and_leaves_the_rest) {
  post(3);
  ASSERT_EQ(to_state(IBV_QPS_ERR).apply(pair_.b.qp.get()), 0);

  auto event = wait_for_event(pair_.context, IBV_EVENT_QP_LAST_WQE_REACHED);
  EXPECT_EQ(event.element.qp, pair_.b.qp.get());
  ibv_ack_async_event(&event);
  EXPECT_TRUE(completions_in(pair_.b.recv_cq.get()).empty()) << "the requests belong to the queue";

  for (const auto* each : {&pair_.a, &pair_.b}) {
    ASSERT_EQ(to_state(IBV_QPS_RESET).apply(each->qp.get()), 0);
  }
  connect(pair_.a.qp.get(), pair_.b.qp->qp_num);
  connect(pair_.b.qp.get(), pair_.a.qp->qp_num);
  take(3);
}

TEST_F(shared_receive_queues, a_sender_waits_for_a_receive) {
  ASSERT_EQ(send(1, {here_.sge(0, 3000)}).post(pair_.a.qp.get()), 0);
  EXPECT_TRUE(completions_in(pair_.a.send_cq.get()).empty());
  post(1);
  wait_for_success(pair_.a.send_cq.get());
  EXPECT_EQ(wait_for_success(pair_.b.recv_cq.get()).byte_len, 3000U);
  EXPECT_TRUE(same_bytes(there_.bytes(0, 3000), here_.bytes(0, 3000)));
}

TEST_F(shared_receive_queues, several_queue_pairs_take_from_it) {
  const side other(pair_.context);
  ibv_qp_init_attr wanted{};
  wanted.send_cq = pair_.b.send_cq.get();
  wanted.recv_cq = pair_.b.recv_cq.get();
  wanted.srq = srq_;
  wanted.cap = {.max_send_wr = 4,
                .max_recv_wr = 0,
                .max_send_sge = 1,
                .max_recv_sge = 0,
                .max_inline_data = 0};
  wanted.qp_type = IBV_QPT_RC;
  const auto second = own(ibv_create_qp(pair_.b.domain(), &wanted));
  connect(second.get(), other.qp->qp_num);
  connect(other.qp.get(), second->qp_num);
  const buffer from(other.domain(), 8);
  EXPECT_EQ(ibv_destroy_srq(srq_), EBUSY);
  post(2);

  ASSERT_EQ(send(1, {from.sge()}).post(other.qp.get()), 0);
  EXPECT_EQ(wait_for_success(pair_.b.recv_cq.get()).qp_num, second->qp_num);
  ASSERT_EQ(send(1, {here_.sge(0, 8)}).post(pair_.a.qp.get()), 0);
  EXPECT_EQ(wait_for_success(pair_.b.recv_cq.get()).qp_num, pair_.b.qp->qp_num);
}

}  // namespace
}  // namespace softverbs::device_tests
