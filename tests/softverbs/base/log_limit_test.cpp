#include <base/log_limit.hpp>

#include <chrono>
#include <optional>

#include <gtest/gtest.h>

using namespace std::chrono_literals;

namespace {

using limit = softverbs::log_limit<std::chrono::steady_clock>;
constexpr std::chrono::steady_clock::time_point start{100s};

TEST(softverbs_log_limit, tells_the_first_at_once_and_no_other_within_a_second) {
  limit lines;
  EXPECT_EQ(lines.occurred(start), 1U);
  for (int i = 1; i < 1000; ++i) EXPECT_EQ(lines.occurred(start + i * 1ms), std::nullopt);
}

TEST(softverbs_log_limit, tells_how_many_there_have_been_once_a_second) {
  limit lines;
  EXPECT_EQ(lines.occurred(start), 1U);
  EXPECT_EQ(lines.occurred(start + 999ms), std::nullopt);
  EXPECT_EQ(lines.occurred(start + 1s), 3U);
  EXPECT_EQ(lines.occurred(start + 1500ms), std::nullopt);
  EXPECT_EQ(lines.occurred(start + 10s), 5U);
}

TEST(softverbs_log_limit, tells_the_end_only_if_it_is_news) {
  limit lines;
  EXPECT_EQ(lines.ended(), std::nullopt);
  EXPECT_EQ(lines.occurred(start), 1U);
  EXPECT_EQ(lines.ended(), std::nullopt);
  EXPECT_EQ(lines.occurred(start + 1ms), std::nullopt);
  EXPECT_EQ(lines.ended(), 2U);
  EXPECT_EQ(lines.ended(), std::nullopt);
}

}  // namespace
