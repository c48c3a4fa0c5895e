// library_clock: runs like std::chrono::steady_clock, unless it is stopped.

#include <rdmaxx/core/clock.hpp>

#include <chrono>
#include <future>

#include <gtest/gtest.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <rdmaxx/core/readiness.hpp>

namespace rdmaxx {

namespace {

using namespace std::chrono_literals;

TEST(library_clock, is_the_steady_clock) {
  const auto before = std::chrono::steady_clock::now();
  const auto now = library_clock::now();
  EXPECT_LE(before, now);
  EXPECT_LE(now, std::chrono::steady_clock::now());
}

TEST(library_clock, tells_how_long_to_sleep) {
  using time_point = library_clock::time_point;
  EXPECT_EQ(library_clock::milliseconds_until(time_point::max()), -1);
  EXPECT_EQ(library_clock::milliseconds_until(time_point::min()), 0);
  manual_clock time;
  const auto now = library_clock::now();
  EXPECT_EQ(library_clock::milliseconds_until(now), 0);
  EXPECT_EQ(library_clock::milliseconds_until(now + 1h), 1) << "nobody wakes it";
}

TEST(manual_clock, stands_still_until_it_is_advanced) {
  manual_clock time;
  const auto begin = library_clock::now();
  EXPECT_EQ(library_clock::now(), begin);
  time.advance(24h);
  EXPECT_EQ(library_clock::now(), begin + 24h);
}

TEST(manual_clock, ends_a_wait_whose_deadline_it_reaches) {
  const int silent = ::eventfd(0, EFD_CLOEXEC);
  ASSERT_GE(silent, 0);
  const auto begin = std::chrono::steady_clock::now();
  {
    manual_clock time;
    auto waiting = std::async(std::launch::async, [&] { return wait_readable(silent, 1h); });
    EXPECT_EQ(waiting.wait_for(50ms), std::future_status::timeout) << "no time has passed";
    // The wait may begin after the first hour.
    while (waiting.wait_for(1ms) != std::future_status::ready) time.advance(1h);
    EXPECT_FALSE(waiting.get().value());
  }
  EXPECT_LT(std::chrono::steady_clock::now() - begin, 1min);
  ::close(silent);
}

}  // namespace

}  // namespace rdmaxx
