#include <transport/packet_timer.hpp>

#include <chrono>
#include <cstdint>
#include <optional>

#include <gtest/gtest.h>

namespace softverbs::transport {
namespace {

using namespace std::chrono_literals;

constexpr std::uint64_t next_to_each_other = 1;

time_point at(std::chrono::milliseconds when) { return time_point(when); }

TEST(packet_timer, tells_when_the_youngest_of_the_answered_was_sent) {
  packet_timer timer;
  timer.sent(10, at(1ms));
  timer.sent(20, at(2ms));
  timer.sent(30, at(3ms));

  EXPECT_EQ(timer.answered_before(10), std::nullopt) << "10 itself is not answered";
  EXPECT_EQ(timer.answered_before(25), at(2ms));
  EXPECT_EQ(timer.answered_before(25), std::nullopt) << "each is told once";
  EXPECT_EQ(timer.answered_before(31), at(3ms));
}

TEST(packet_timer, times_few_packets_and_none_close_to_another) {
  packet_timer timer;
  EXPECT_TRUE(timer.has_room(5, 100)) << "the first";
  timer.sent(5, at(0ms));
  EXPECT_FALSE(timer.has_room(104, 100));
  EXPECT_TRUE(timer.has_room(105, 100));

  for (std::uint64_t psn = 6; psn < 5 + packet_timer::most; ++psn) {
    ASSERT_TRUE(timer.has_room(psn, next_to_each_other));
    timer.sent(psn, at(0ms));
  }
  EXPECT_FALSE(timer.has_room(1000, next_to_each_other));
  EXPECT_NE(timer.answered_before(6), std::nullopt);
  EXPECT_TRUE(timer.has_room(1000, next_to_each_other));
}

TEST(packet_timer, goes_round_its_places) {
  packet_timer timer;
  for (unsigned psn = 0; psn < 5 * packet_timer::most; ++psn) {
    timer.sent(psn, at(std::chrono::milliseconds(psn)));
    if (psn == 0) continue;
    EXPECT_EQ(timer.answered_before(psn), at(std::chrono::milliseconds(psn - 1)));
  }
}

TEST(packet_timer, forgets_what_is_sent_again) {
  packet_timer timer;
  timer.sent(10, at(1ms));
  timer.sent(20, at(2ms));
  timer.sent(30, at(3ms));
  timer.forget_from(20);

  EXPECT_EQ(timer.answered_before(100), at(1ms));
  timer.forget_from(0);
  EXPECT_TRUE(timer.has_room(20, 1000));
}

}  // namespace
}  // namespace softverbs::transport
