#include <rdmaxx/verbs/ack_timeout.hpp>

#include <gtest/gtest.h>

namespace rdmaxx::test {
namespace {

using namespace std::chrono_literals;

TEST(ack_timeout, is_the_shortest_that_lasts_as_long_as_asked) {
  EXPECT_EQ(ack_timeout(50ms).exponent(), 14);
  EXPECT_EQ(ack_timeout(50ms).duration(), 67'108'864ns);
  EXPECT_EQ(ack_timeout(67'108'864ns).exponent(), 14);
  EXPECT_EQ(ack_timeout(67'108'865ns).exponent(), 15);
}

TEST(ack_timeout, a_duration_never_means_never) {
  EXPECT_EQ(ack_timeout(0s).exponent(), 1);
  EXPECT_EQ(ack_timeout(-1s).exponent(), 1);
  EXPECT_EQ(ack_timeout(3h).exponent(), 31);
  EXPECT_EQ(ack_timeout(std::chrono::hours::max()).exponent(), 31);
  EXPECT_TRUE(ack_timeout::never().is_never());
  EXPECT_EQ(ack_timeout::never().exponent(), 0);
}

TEST(ack_timeout, every_exponent_of_the_device_is_reachable_and_round_trips) {
  for (std::uint8_t exponent = 1; exponent <= ack_timeout::largest_exponent; ++exponent) {
    const auto exact = ack_timeout::from_exponent(exponent);
    EXPECT_EQ(exact.exponent(), exponent);
    EXPECT_EQ(ack_timeout(exact.duration()), exact);
  }
  EXPECT_EQ(ack_timeout::from_exponent(200).exponent(), 200) << "the device has the last word";
}

TEST(ack_timeout, is_described_with_time_and_exponent) {
  EXPECT_EQ(describe(ack_timeout::from_exponent(14)), "67.1 ms (exponent 14)");
  EXPECT_EQ(describe(ack_timeout::never()), "never (exponent 0)");
}

static_assert(!std::is_convertible_v<int, ack_timeout>, "14 what?");

}  // namespace
}  // namespace rdmaxx::test
