// keep_alive: when to ask for a sign of life, and when to give up.

#include "stream/keep_alive.hpp"

#include <chrono>

#include <gtest/gtest.h>

namespace rdmaxx {

namespace {

using namespace std::chrono_literals;
using detail::keep_alive;
using action = keep_alive::action;

constexpr keep_alive::time_point begin{100s};

TEST(keep_alive, of_no_period_does_nothing) {
  keep_alive never(0ms, 2s, begin);
  EXPECT_EQ(never.next(begin + 1h, true), action::none);
  EXPECT_EQ(never.next(begin + 2h, false), action::none);
  EXPECT_EQ(never.wake_at(), keep_alive::time_point::max());
}

TEST(keep_alive, probes_after_a_period_of_silence) {
  keep_alive alive(500ms, 2s, begin);
  EXPECT_EQ(alive.next(begin + 100ms, false), action::none);
  EXPECT_EQ(alive.wake_at(), begin + 500ms);
  EXPECT_EQ(alive.next(begin + 500ms, false), action::ask);
  alive.heard();
  EXPECT_EQ(alive.next(begin + 600ms, false), action::none);
  EXPECT_EQ(alive.wake_at(), begin + 1100ms);
}

TEST(keep_alive, gives_up_within_its_timeout) {
  keep_alive alive(500ms, 2s, begin);
  ASSERT_EQ(alive.next(begin + 500ms, false), action::ask);
  auto now = begin + 500ms;
  int looks = 0;
  for (auto what = action::none; what != action::give_up; ++looks) {
    ASSERT_LE(now, begin + 2500ms);
    what = alive.next(now, true);
    if (what == action::none) now = alive.wake_at();
  }
  EXPECT_EQ(now, begin + 2500ms);
  EXPECT_LE(looks, 4) << "it sleeps as long as it can";
}

TEST(keep_alive, any_completion_counts_as_an_answer) {
  keep_alive alive(500ms, 2s, begin);
  for (auto now = begin; now < begin + 60s; now += 1s) {
    alive.heard();
    EXPECT_EQ(alive.next(now, true), action::none) << "something is under way all the time";
  }
}

TEST(keep_alive, does_not_probe_while_something_is_in_flight) {
  keep_alive alive(500ms, 2s, begin);
  EXPECT_EQ(alive.next(begin + 10s, true), action::none) << "it waits since now";
  EXPECT_EQ(alive.wake_at(), begin + 11750ms);
}

TEST(keep_alive, checks_once_more_if_the_program_itself_was_stopped) {
  keep_alive alive(500ms, 2s, begin);
  ASSERT_EQ(alive.next(begin + 500ms, false), action::ask);
  EXPECT_EQ(alive.next(begin + 1h, true), action::none);
  alive.heard();  // the answer had come long ago
  EXPECT_EQ(alive.next(begin + 1h + 1ms, false), action::none);
}

}  // namespace

}  // namespace rdmaxx
