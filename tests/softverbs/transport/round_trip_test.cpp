// The arithmetic of RFC 6298, clause by clause.

#include <transport/round_trip.hpp>

#include <chrono>

#include <gtest/gtest.h>

namespace softverbs::transport {
namespace {

using namespace std::chrono_literals;

TEST(round_trip, waits_a_fixed_time_before_the_first_sample) {  // 2.1
  const round_trip path;
  EXPECT_FALSE(path.is_known());
  EXPECT_EQ(path.timeout(), round_trip::first_timeout);
}

TEST(round_trip, takes_the_first_sample_as_it_is) {  // 2.2
  round_trip path;
  path.sample(100ms);
  EXPECT_TRUE(path.is_known());
  EXPECT_EQ(path.smoothed(), 100ms);
  EXPECT_EQ(path.timeout(), 100ms + 4 * 50ms);
}

TEST(round_trip, smooths_the_following_ones) {  // 2.3
  round_trip path;
  path.sample(100ms);
  path.sample(180ms);
  // RTTVAR = 3/4 · 50 + 1/4 · |100 - 180|, and only then SRTT = 7/8 · 100 + 1/8 · 180.
  EXPECT_EQ(path.smoothed(), 110ms);
  EXPECT_EQ(path.timeout(), 110ms + 4 * 57500us);
}

TEST(round_trip, never_waits_less_than_the_granularity_beyond_the_mean) {  // 2.3, G
  round_trip path;
  for (int i = 0; i < 100; ++i) path.sample(20us);
  EXPECT_EQ(path.timeout(), 20us + round_trip::granularity);
}

TEST(round_trip, follows_a_path_that_becomes_longer) {
  round_trip path;
  for (int i = 0; i < 100; ++i) path.sample(1ms);
  for (int i = 0; i < 100; ++i) path.sample(50ms);
  EXPECT_GT(path.timeout(), 50ms);
  EXPECT_LT(path.timeout(), 70ms);
}

TEST(round_trip, doubles_with_a_timeout_until_the_next_sample) {  // 5.5 and 5.7
  round_trip path;
  path.sample(100ms);
  path.back_off();
  EXPECT_EQ(path.timeout(), 600ms);
  EXPECT_EQ(path.timeout_without_backoff(), 300ms);
  path.sample(100ms);
  EXPECT_EQ(path.timeout(), 100ms + 4 * 37500us);
}

TEST(round_trip, waits_longer_for_one_more_answer_than_the_first) {
  // A path that is longer than the timeout: the answer comes after the repetition, and is no
  // sample. Only a longer wait gets one.
  round_trip path;
  path.back_off();
  path.answered();
  EXPECT_EQ(path.timeout(), 2 * round_trip::first_timeout);
  path.answered();
  EXPECT_EQ(path.timeout(), round_trip::first_timeout);
}

TEST(round_trip, has_a_longest_timeout) {  // 2.5
  round_trip path;
  for (int i = 0; i < 1000; ++i) path.back_off();
  EXPECT_EQ(path.timeout(), round_trip::longest_doubled);
  path.sample(10min);
  EXPECT_EQ(path.timeout(), round_trip::longest_timeout);
}

TEST(round_trip, knows_when_packets_wait_for_each_other) {
  round_trip path;
  path.sample(10ms);
  EXPECT_FALSE(path.queue_builds_up());
  path.sample(20ms);
  EXPECT_FALSE(path.queue_builds_up());
  path.sample(21ms);
  EXPECT_TRUE(path.queue_builds_up());
  path.sample(10ms);
  EXPECT_FALSE(path.queue_builds_up());
}

TEST(round_trip, a_long_path_need_not_be_twice_as_long_to_have_a_queue) {
  round_trip path;
  path.sample(160ms);
  path.sample(180ms);
  EXPECT_FALSE(path.queue_builds_up());
  path.sample(181ms);
  EXPECT_TRUE(path.queue_builds_up());
}

TEST(round_trip, further_answers_tell_of_a_queue_but_do_not_change_the_timeout) {
  round_trip path;
  path.sample(100ms);
  const auto timeout = path.timeout();
  path.answered(200ms);
  EXPECT_TRUE(path.queue_builds_up());
  EXPECT_EQ(path.timeout(), timeout);
  path.answered(90ms);
  EXPECT_FALSE(path.queue_builds_up());
  path.sample(105ms);
  EXPECT_TRUE(path.queue_builds_up()) << "90 ms were the shortest";
}

TEST(round_trip, learns_the_shortest_time_anew) {
  round_trip path;
  path.sample(1ms);
  path.sample(30ms);
  EXPECT_TRUE(path.queue_builds_up());
  path.forget_shortest();
  path.sample(30ms);
  EXPECT_FALSE(path.queue_builds_up());
}

}  // namespace
}  // namespace softverbs::transport
