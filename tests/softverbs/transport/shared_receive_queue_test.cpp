#include <transport/shared_receive_queue.hpp>

#include <cstdint>

#include <gtest/gtest.h>

namespace softverbs::transport {
namespace {

using taken = shared_receive_queue::taken;

void post(shared_receive_queue& queue, std::uint64_t id) {
  queue.with_queue([&](receive_queue& of) {
    ASSERT_FALSE(of.is_full());
    of.push(id, 1)[0] = {.address = 100 * id, .length = 8, .key = 1};
  });
}

TEST(shared_receive_queue, c10_2_9_5_the_limit_is_told_once_for_each_time_that_it_is_set) {
  shared_receive_queue queue(8, 1);
  for (std::uint64_t id = 1; id <= 6; ++id) post(queue, id);
  ASSERT_TRUE(queue.change(std::nullopt, 4));
  receive_work out;
  EXPECT_EQ(queue.take(out), taken::request);
  EXPECT_EQ(queue.take(out), taken::request);  // four are left
  EXPECT_EQ(queue.take(out), taken::request_below_limit);
  EXPECT_EQ(queue.current().limit, 0U);
  EXPECT_EQ(queue.take(out), taken::request);
  ASSERT_TRUE(queue.change(std::nullopt, 2));
  EXPECT_EQ(queue.take(out), taken::request_below_limit);
  EXPECT_EQ(queue.take(out), taken::request);
  EXPECT_EQ(queue.take(out), taken::nothing);
}

TEST(shared_receive_queue, requests_come_out_in_order_across_the_end_of_the_ring_and_a_resize) {
  shared_receive_queue queue(5, 1);
  receive_work out;
  std::uint64_t next = 1;
  for (std::uint64_t id = 1; id <= 20; ++id) {
    post(queue, id);
    if (id == 10) {
      EXPECT_TRUE(queue.change(8, std::nullopt));
    }
    if (id % 3 == 0) continue;
    ASSERT_EQ(queue.take(out), taken::request);
    EXPECT_EQ(out.id, next);
    ASSERT_EQ(out.into.size(), 1U);
    EXPECT_EQ(out.into[0].address, 100 * next);
    ++next;
  }
}

TEST(shared_receive_queue, a_change_that_does_not_fit_changes_nothing) {
  shared_receive_queue queue(4, 1);
  for (std::uint64_t id = 1; id <= 4; ++id) post(queue, id);
  EXPECT_FALSE(queue.change(3, 1));
  EXPECT_FALSE(queue.change(8, 9));
  EXPECT_EQ(queue.current().capacity, 4U);
  EXPECT_EQ(queue.current().limit, 0U);
}

}  // namespace
}  // namespace softverbs::transport
