// Asynchronous events: what a device says unasked, and how long what it speaks of lives.

#include <atomic>
#include <cerrno>

#include <fcntl.h>
#include <gtest/gtest.h>
#include <infiniband/verbs.h>

#include "blocked_thread.hpp"
#include "connected_pair.hpp"
#include "owned.hpp"
#include "requests.hpp"
#include "waiting.hpp"

namespace softverbs::device_tests {

namespace {

void drain(ibv_qp* qp) {
  auto drained = to_state(IBV_QPS_SQD);
  drained.mask |= IBV_QP_EN_SQD_ASYNC_NOTIFY;
  drained.attributes.en_sqd_async_notify = 1;
  ASSERT_EQ(drained.apply(qp), 0);
}

TEST(async_events, the_first_packet_establishes_the_communication) {
  const auto context = open_device();
  const side a(context.get());
  const side b(context.get());
  connect(a.qp.get(), b.qp->qp_num);
  ASSERT_EQ(to_init(IBV_QPT_RC).apply(b.qp.get()), 0);
  ASSERT_EQ(to_rtr(context.get(), IBV_QPT_RC, a.qp->qp_num).apply(b.qp.get()), 0);
  EXPECT_FALSE(is_readable(context->async_fd));

  ASSERT_EQ(write(1, {}, 0, 0).post(a.qp.get()), 0);
  wait_for_success(a.send_cq.get());
  ASSERT_EQ(write(2, {}, 0, 0).post(a.qp.get()), 0);
  wait_for_success(a.send_cq.get());

  auto event = wait_for_event(context.get(), IBV_EVENT_COMM_EST);
  EXPECT_EQ(event.element.qp, b.qp.get());
  ibv_ack_async_event(&event);
  EXPECT_FALSE(is_readable(context->async_fd)) << "it is said once";
}

TEST(async_events, a_violation_of_rights_is_reported_to_the_responder) {
  const connected_pair pair;
  const buffer from(pair.a.domain(), 8);
  ASSERT_EQ(write(1, {from.sge()}, 4096, 1).post(pair.a.qp.get()), 0);
  EXPECT_EQ(wait_for_one(pair.a.send_cq.get()).status, IBV_WC_REM_ACCESS_ERR);

  auto event = wait_for_event(pair.context, IBV_EVENT_QP_ACCESS_ERR);
  EXPECT_EQ(event.element.qp, pair.b.qp.get());
  ibv_ack_async_event(&event);
}

TEST(async_events, an_invalid_request_is_reported_to_the_responder) {
  const connected_pair pair;
  const buffer into(pair.a.domain(), 8);
  const buffer cell(pair.b.domain(), 16);
  ASSERT_EQ(fetch_add(1, into.sge(), cell.address(1), cell.rkey(), 1).post(pair.a.qp.get()), 0);
  EXPECT_EQ(wait_for_one(pair.a.send_cq.get()).status, IBV_WC_REM_INV_REQ_ERR);

  auto event = wait_for_event(pair.context, IBV_EVENT_QP_REQ_ERR);
  EXPECT_EQ(event.element.qp, pair.b.qp.get());
  ibv_ack_async_event(&event);
}

TEST(async_events, without_any_a_descriptor_that_must_not_block_does_not) {
  const auto context = open_device();
  ASSERT_EQ(::fcntl(context->async_fd, F_SETFL, O_NONBLOCK), 0);
  ibv_async_event event{};
  errno = 0;
  EXPECT_EQ(ibv_get_async_event(context.get(), &event), -1);
  EXPECT_EQ(errno, EAGAIN);
}

TEST(async_events, a_queue_pair_ends_when_its_events_are_acknowledged) {
  connected_pair pair;
  drain(pair.a.qp.get());
  auto event = wait_for_event(pair.context, IBV_EVENT_SQ_DRAINED);
  std::atomic<bool> acknowledged = false;
  auto* const qp = pair.a.qp.release();
  blocked_thread destroyer([&] {
    EXPECT_EQ(ibv_destroy_qp(qp), 0);
    EXPECT_TRUE(acknowledged);
  });
  destroyer.wait_until_blocked();
  acknowledged = true;
  ibv_ack_async_event(&event);
}

TEST(async_events, a_shared_receive_queue_ends_when_its_events_are_acknowledged) {
  connected_pair pair({.srq_requests = 4});
  for (std::uint64_t id = 0; id < 2; ++id) ASSERT_EQ(post_receive(pair.b.srq.get(), id, {}), 0);
  ibv_srq_attr limit{.max_wr = 0, .max_sge = 0, .srq_limit = 2};
  ASSERT_EQ(ibv_modify_srq(pair.b.srq.get(), &limit, IBV_SRQ_LIMIT), 0);
  ASSERT_EQ(send(1, {}).post(pair.a.qp.get()), 0);
  wait_for_success(pair.b.recv_cq.get());
  auto event = wait_for_event(pair.context, IBV_EVENT_SRQ_LIMIT_REACHED);
  pair.b.qp = nullptr;
  std::atomic<bool> acknowledged = false;
  auto* const srq = pair.b.srq.release();
  blocked_thread destroyer([&] {
    EXPECT_EQ(ibv_destroy_srq(srq), 0);
    EXPECT_TRUE(acknowledged);
  });
  destroyer.wait_until_blocked();
  acknowledged = true;
  ibv_ack_async_event(&event);
}

TEST(async_events, those_that_nobody_took_end_with_what_they_speak_of) {
  connected_pair pair;
  drain(pair.a.qp.get());
  drain(pair.b.qp.get());
  wait_until_readable(pair.context->async_fd);
  pair.a.qp = nullptr;
  auto event = wait_for_event(pair.context, IBV_EVENT_SQ_DRAINED);
  EXPECT_EQ(event.element.qp, pair.b.qp.get());
  ibv_ack_async_event(&event);
  EXPECT_FALSE(is_readable(pair.context->async_fd));
}

}  // namespace
}  // namespace softverbs::device_tests
