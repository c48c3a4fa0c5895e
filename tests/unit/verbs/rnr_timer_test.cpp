#include <rdmaxx/verbs/rnr_timer.hpp>

#include <gtest/gtest.h>

namespace rdmaxx::test {
namespace {

using namespace std::chrono_literals;

TEST(rnr_timer, is_the_shortest_that_lasts_as_long_as_asked) {
  EXPECT_EQ(rnr_timer(1ms).code(), 14);
  EXPECT_EQ(rnr_timer(1ms).duration(), 1280us);
  EXPECT_EQ(rnr_timer(1280us).code(), 14);
  EXPECT_EQ(rnr_timer(1281us).code(), 15);
  EXPECT_EQ(rnr_timer(0ms).code(), 1);
}

TEST(rnr_timer, code_0_is_the_longest) {
  EXPECT_EQ(rnr_timer(492ms).code(), 0);
  EXPECT_EQ(rnr_timer(std::chrono::hours::max()).code(), 0);
  EXPECT_EQ(rnr_timer::from_code(0).duration(), 655'360us);
}

TEST(rnr_timer, every_code_is_reachable_and_round_trips) {
  for (std::uint8_t code = 0; code <= rnr_timer::largest_code; ++code) {
    const auto exact = rnr_timer::from_code(code);
    EXPECT_EQ(exact.code(), code);
    EXPECT_EQ(rnr_timer(exact.duration()), exact);
  }
}

TEST(rnr_timer, is_described_with_time_and_code) {
  EXPECT_EQ(describe(rnr_timer::from_code(12)), "0.64 ms (code 12)");
}

static_assert(!std::is_convertible_v<int, rnr_timer>, "12 what?");

}  // namespace
}  // namespace rdmaxx::test
