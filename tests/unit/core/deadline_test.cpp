#include <rdmaxx/core/deadline.hpp>

#include <chrono>

#include <gtest/gtest.h>

using namespace rdmaxx;
using namespace std::chrono_literals;
using std::chrono::steady_clock;

namespace {

constexpr steady_clock::time_point start{1h};

}  // namespace

TEST(deadline, is_the_time_after_the_start) {
  EXPECT_EQ(deadline_after(start, 5ms), start + 5ms);
  EXPECT_EQ(deadline_after(start, 3ns), start + 3ns);
  EXPECT_EQ(deadline_after(start, std::chrono::duration<double>(0.5)), start + 500ms);
  EXPECT_EQ(deadline_after(start, std::chrono::duration<double, std::nano>(0.5)), start + 1ns)
      << "rounded up";
}

TEST(deadline, nothing_and_less_is_the_start_itself) {
  EXPECT_EQ(deadline_after(start, 0ms), start);
  EXPECT_EQ(deadline_after(start, -5ms), start);
  EXPECT_EQ(deadline_after(start, std::chrono::milliseconds::min()), start);
  EXPECT_EQ(deadline_after(start, std::chrono::hours::min()), start);
}

TEST(deadline, the_longest_waits_are_a_year_in_every_unit) {
  EXPECT_EQ(deadline_after(start, std::chrono::nanoseconds::max()), start + longest_wait);
  EXPECT_EQ(deadline_after(start, std::chrono::microseconds::max()), start + longest_wait);
  EXPECT_EQ(deadline_after(start, std::chrono::milliseconds::max()), start + longest_wait);
  EXPECT_EQ(deadline_after(start, std::chrono::milliseconds::max() - 1ms), start + longest_wait);
  EXPECT_EQ(deadline_after(start, std::chrono::hours::max()), start + longest_wait);
  EXPECT_EQ(deadline_after(start, std::chrono::years::max()), start + longest_wait);
  EXPECT_EQ(deadline_after(start, std::chrono::duration<double>::max()), start + longest_wait);
  EXPECT_EQ(deadline_after(start, longest_wait - 1ns), start + longest_wait - 1ns);
}

TEST(deadline, a_start_near_the_end_of_time_does_not_overflow) {
  constexpr auto last = steady_clock::time_point::max();
  EXPECT_EQ(deadline_after(last, 1ns), last);
  EXPECT_EQ(deadline_after(last - 1s, 5s), last);
  EXPECT_EQ(deadline_after(steady_clock::time_point::min(), 1s),
            steady_clock::time_point::min() + 1s);
}
