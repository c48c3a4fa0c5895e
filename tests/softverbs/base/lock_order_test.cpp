#include <base/lock_order.hpp>

#include <mutex>
#include <optional>
#include <shared_mutex>
#include <type_traits>

#include <gtest/gtest.h>

namespace softverbs {
namespace {

using enum lock_rank;

TEST(held_locks, let_later_ranks_pass_alone) {
  held_locks held;
  EXPECT_EQ(held.obstacle_to(receiving), std::nullopt) << "nothing is held";
  held.add(queue_pair);
  EXPECT_EQ(held.obstacle_to(timers), std::nullopt);
  EXPECT_EQ(held.obstacle_to(receiving), queue_pair);
  EXPECT_EQ(held.obstacle_to(queue_pair), queue_pair) << "two of one rank are never held together";
}

TEST(held_locks, forget_what_is_released_in_whatever_order) {
  held_locks held;
  held.add(receiving);
  held.add(queue_pair);
  held.add(timers);
  EXPECT_EQ(held.obstacle_to(receiving), timers) << "the worst is named";
  held.remove(queue_pair);
  EXPECT_EQ(held.obstacle_to(ports), timers);
  held.remove(timers);
  EXPECT_EQ(held.obstacle_to(ports), std::nullopt);
  held.remove(timers);  // one that is not known
  EXPECT_EQ(held.obstacle_to(receiving), receiving);
  held.clear();
  EXPECT_EQ(held.obstacle_to(receiving), std::nullopt);
}

TEST(checked_mutex, is_recorded_while_it_is_held) {
  checked_mutex<queue_pair, std::mutex> first;
  checked_mutex<memory, std::shared_mutex> second;
  const auto& held = held_locks::of_thread();
  {
    const std::lock_guard lock(first);
    const std::shared_lock shared(second);
    EXPECT_EQ(held.obstacle_to(queue_pair), memory);
  }
  EXPECT_EQ(held.obstacle_to(virtual_time), std::nullopt);
}

TEST(checked_mutex, may_be_tried_out_of_order) {
  checked_mutex<receiving, std::mutex> earlier;
  checked_mutex<queue_pair, std::mutex> later;
  const std::lock_guard lock(later);
  const std::unique_lock tried(earlier, std::try_to_lock);
  EXPECT_TRUE(tried.owns_lock());
}

// Deaths are tried in a process of their own.
TEST(checked_mutex_death, a_lock_out_of_order_ends_the_process) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  checked_mutex<receiving, std::mutex> earlier;
  checked_mutex<queue_pair, std::mutex> later;
  const auto out_of_order = [&] {
    const std::lock_guard lock(later);
    const std::lock_guard violation(earlier);
  };
  EXPECT_DEATH(out_of_order(), "rank 'receiving' is taken while one of rank 'queue_pair' is held");
}

TEST(checked_mutex_death, two_queue_pairs_at_once_end_the_process) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  checked_mutex<queue_pair, std::mutex> one;
  checked_mutex<queue_pair, std::mutex> other;
  const auto both = [&] {
    const std::lock_guard lock(one);
    const std::lock_guard violation(other);
  };
  EXPECT_DEATH(both(), "rank 'queue_pair' is taken while one of rank 'queue_pair' is held");
}

#ifdef NDEBUG
static_assert(std::is_same_v<ranked_mutex<receiving>, std::mutex>);
static_assert(std::is_same_v<ranked_shared_mutex<receiving>, std::shared_mutex>);
#else
static_assert(std::is_same_v<ranked_mutex<receiving>, checked_mutex<receiving, std::mutex>>);
#endif

}  // namespace
}  // namespace softverbs
