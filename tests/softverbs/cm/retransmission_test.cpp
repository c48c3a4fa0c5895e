#include <cm/retransmission.hpp>

#include <chrono>
#include <vector>

#include <gtest/gtest.h>

namespace softverbs::cm {
namespace {

using namespace std::chrono_literals;
using engine::time_point;

constexpr time_point start{1h};
const wire::cm_message req{.kind = wire::cm_kind::req, .local_id = 7};

/// The times between sendings of a message that nobody answers, and the last wait.
std::vector<engine::clock::duration> intervals_of(retransmission& waiting) {
  std::vector<engine::clock::duration> intervals;
  auto now = start;
  while (waiting.message()) {
    intervals.push_back(waiting.due() - now);
    now = waiting.due();
    const auto again = waiting.on_timer(now);
    EXPECT_EQ(again.value_or(req), req);
  }
  return intervals;
}

TEST(retransmission, repeats_fifteen_times_from_every_200_ms_to_every_4300_ms) {
  retransmission waiting;
  waiting.start(req, start);
  const std::vector<engine::clock::duration> schedule{
      200ms,  400ms,  800ms,  1600ms, 3200ms, 4300ms, 4300ms, 4300ms,
      4300ms, 4300ms, 4300ms, 4300ms, 4300ms, 4300ms, 4300ms, 4300ms};
  EXPECT_EQ(intervals_of(waiting), schedule);
  EXPECT_EQ(waiting.due(), engine::never);
}

TEST(retransmission, sends_nothing_before_it_is_due) {
  retransmission waiting;
  waiting.start(req, start);
  EXPECT_FALSE(waiting.on_timer(start + 199ms));
  EXPECT_TRUE(waiting.message());
  EXPECT_TRUE(waiting.on_timer(start + 200ms));
}

TEST(retransmission, stops) {
  retransmission waiting;
  waiting.start(req, start);
  waiting.stop();
  EXPECT_EQ(waiting.due(), engine::never);
  EXPECT_FALSE(waiting.on_timer(start + 1h));
}

TEST(retransmission, tells_the_first_sending_from_repetitions) {
  retransmission waiting;
  waiting.start(req, start);
  EXPECT_TRUE(waiting.is_first_sending());
  EXPECT_TRUE(waiting.on_timer(waiting.due()));
  EXPECT_FALSE(waiting.is_first_sending());
  waiting.start(req, start);
  EXPECT_EQ(waiting.resend(), req);
  EXPECT_FALSE(waiting.is_first_sending());
  EXPECT_EQ(waiting.due(), start + 200ms);
}

TEST(retransmission, looks_for_a_receiver_ten_times_every_5_ms) {
  retransmission waiting;
  waiting.start(req, start);
  auto now = start;
  for (unsigned i = 1; i < retransmission::most_deliveries; ++i) {
    ASSERT_TRUE(waiting.on_undelivered(now));
    EXPECT_EQ(waiting.due(), now + 5ms);
    now = waiting.due();
    ASSERT_TRUE(waiting.on_timer(now));
  }
  EXPECT_FALSE(waiting.on_undelivered(now));
}

TEST(retransmission, repeats_as_usual_once_a_receiver_was_found) {
  retransmission waiting;
  waiting.start(req, start);
  ASSERT_TRUE(waiting.on_undelivered(start));
  ASSERT_TRUE(waiting.on_timer(start + 5ms));
  EXPECT_EQ(waiting.due(), start + 205ms);
  // The receiver has the message, even if it cannot be reached by the next one.
  ASSERT_TRUE(waiting.on_timer(start + 205ms));
  for (int i = 0; i < 100; ++i) EXPECT_TRUE(waiting.on_undelivered(start + 205ms));
  EXPECT_EQ(waiting.due(), start + 605ms);
}

TEST(retransmission, waits_as_long_as_the_peer_asks_12_6_6) {
  retransmission waiting;
  waiting.start(req, start);
  waiting.postpone(start, 24);
  EXPECT_EQ(waiting.due(), start + std::chrono::nanoseconds(68'719'476'736));
  waiting.postpone(start, 0);
  EXPECT_EQ(waiting.due(), start + 4096ns);
  // Five bits of a message; whatever stands there, time goes forward.
  for (const unsigned code : {31U, 32U, 255U}) {
    waiting.postpone(start, code);
    EXPECT_GT(waiting.due(), start);
  }
}

}  // namespace
}  // namespace softverbs::cm
