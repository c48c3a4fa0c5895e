// Completion queues: order, size, and what happens when there is no room.

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <infiniband/verbs.h>
#include <softverbs/softverbs.h>

#include "connected_pair.hpp"
#include "owned.hpp"
#include "requests.hpp"
#include "waiting.hpp"

namespace softverbs::device_tests {

namespace {

/// A pair, and writes whose completions are counted.
struct writes {
  explicit writes(int cq_entries) : pair({.cq_entries = cq_entries}) {}

  void post(std::uint64_t first, std::uint64_t count) const {
    for (auto id = first; id < first + count; ++id) {
      ASSERT_EQ(write(id, {from.sge()}, to.address(), to.rkey()).post(pair.a.qp.get()), 0);
    }
  }
  /// The last of the writes that were posted has been answered: a's completions are in its queue,
  /// as far as there is room.
  void settle() const {
    // b's message comes behind all acknowledgements that b has sent.
    ASSERT_EQ(post_receive(pair.a.qp.get(), 1, {}), 0);
    ASSERT_EQ(send(1, {}).post(pair.b.qp.get()), 0);
    wait_for_success(pair.a.recv_cq.get());
    wait_for_success(pair.b.send_cq.get());
  }

  connected_pair pair;
  buffer from{pair.a.domain(), 8};
  buffer to{pair.b.domain(), 8};
  ibv_cq* cq = pair.a.send_cq.get();
};

TEST(completion_queues, are_read_in_order_by_as_many_as_asked_for) {
  writes all(64);
  all.post(0, 10);
  all.settle();
  std::vector<ibv_wc> room(16);

  EXPECT_EQ(ibv_poll_cq(all.cq, 0, room.data()), 0);
  ASSERT_EQ(ibv_poll_cq(all.cq, 3, room.data()), 3);
  ASSERT_EQ(ibv_poll_cq(all.cq, 13, room.data() + 3), 7);
  for (std::uint64_t id = 0; id < 10; ++id) {
    EXPECT_EQ(room[id].wr_id, id);
    EXPECT_EQ(room[id].status, IBV_WC_SUCCESS);
    EXPECT_EQ(room[id].opcode, IBV_WC_RDMA_WRITE);
    EXPECT_EQ(room[id].qp_num, all.pair.a.qp->qp_num);
  }
  EXPECT_EQ(ibv_poll_cq(all.cq, 1, room.data()), 0);
}

TEST(completion_queues, change_their_size_with_what_is_in_them) {
  writes all(16);
  all.post(0, 12);
  all.settle();
  ibv_wc one{};
  ASSERT_EQ(ibv_poll_cq(all.cq, 1, &one), 1);  // the content does not begin at the start any more

  ASSERT_EQ(ibv_resize_cq(all.cq, 40), 0);
  EXPECT_GE(all.cq->cqe, 40);
  all.post(12, 28);
  all.settle();
  EXPECT_EQ(ibv_resize_cq(all.cq, 38), EINVAL) << "39 are in it";
  ASSERT_EQ(ibv_resize_cq(all.cq, 39), 0);

  const auto found = completions_in(all.cq);
  ASSERT_EQ(found.size(), 39U);
  for (std::uint64_t i = 0; i < found.size(); ++i) EXPECT_EQ(found[i].wr_id, i + 1);
  ASSERT_EQ(ibv_resize_cq(all.cq, 1), 0);
  all.post(50, 1);
  EXPECT_EQ(wait_for_success(all.cq).wr_id, 50U);
}

TEST(completion_queues, cannot_have_just_any_size) {
  const auto context = open_device();
  ibv_device_attr device{};
  ASSERT_EQ(ibv_query_device(context.get(), &device), 0);
  const auto cq = own(ibv_create_cq(context.get(), 4, nullptr, nullptr, 0));
  EXPECT_GE(cq->cqe, 4);
  for (const int wrong : {0, -1, device.max_cqe + 1}) {
    EXPECT_EQ(ibv_resize_cq(cq.get(), wrong), EINVAL) << wrong;
    errno = 0;
    EXPECT_EQ(ibv_create_cq(context.get(), wrong, nullptr, nullptr, 0), nullptr);
    EXPECT_EQ(errno, EINVAL);
  }
  for (const int wrong : {-1, context->num_comp_vectors}) {
    errno = 0;
    EXPECT_EQ(ibv_create_cq(context.get(), 4, nullptr, nullptr, wrong), nullptr);
    EXPECT_EQ(errno, EINVAL);
  }
}

TEST(completion_queues, one_that_overflows_says_so_and_stops_the_queue_pair) {
  writes all(4);
  const auto room = static_cast<std::uint64_t>(all.cq->cqe);
  for (std::uint64_t id = 0; id < room + 3; ++id) {
    // In the error state requests are still taken, and flushed into a queue without room.
    ASSERT_EQ(
        write(id, {all.from.sge()}, all.to.address(), all.to.rkey()).post(all.pair.a.qp.get()), 0);
  }

  auto event = wait_for_event(all.pair.context, IBV_EVENT_CQ_ERR);
  EXPECT_EQ(event.element.cq, all.cq);
  ibv_ack_async_event(&event);
  event = wait_for_event(all.pair.context, IBV_EVENT_QP_FATAL);
  EXPECT_EQ(event.element.qp, all.pair.a.qp.get());
  ibv_ack_async_event(&event);
  EXPECT_EQ(state_of(all.pair.a.qp.get()), IBV_QPS_ERR);
  const auto found = completions_in(all.cq);
  ASSERT_GE(found.size(), room);
  for (std::uint64_t id = 0; id < room; ++id) {
    EXPECT_EQ(found[id].wr_id, id);
    EXPECT_EQ(found[id].status, IBV_WC_SUCCESS);
  }
}

TEST(completion_queues, an_overflow_is_logged_once_a_second_with_a_count) {
  ::softverbs_time_stop();
  testing::internal::CaptureStderr();
  {
    writes all(4);
    const auto post = [&] {
      ASSERT_EQ(
          write(1, {all.from.sge()}, all.to.address(), all.to.rkey()).post(all.pair.a.qp.get()), 0);
    };
    const int lost = 100;
    for (int i = 0; i < all.cq->cqe + lost; ++i) post();
    ASSERT_EQ(::softverbs_time_advance(1'000'000'000), 0);
    post();
    post();
    discard_events(all.pair.context);
  }
  const auto logged = testing::internal::GetCapturedStderr();
  ::softverbs_time_resume();
  EXPECT_EQ(std::ranges::count(logged, '\n'), 3) << logged;
  EXPECT_THAT(logged, testing::HasSubstr("1 completions lost so far"));
  EXPECT_THAT(logged, testing::HasSubstr("101 completions lost so far"));
  EXPECT_THAT(logged, testing::HasSubstr("has lost 102 completions in all"));
}

TEST(completion_queues, one_in_use_stays) {
  const writes all(4);
  EXPECT_EQ(ibv_destroy_cq(all.cq), EBUSY);
}

}  // namespace
}  // namespace softverbs::device_tests
