#include <base/log.hpp>

#include <cerrno>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

using namespace softverbs;

TEST(softverbs_log, writes_one_line_and_leaves_errno_alone) {
  testing::internal::CaptureStderr();
  errno = EPROTO;
  write_log(log_level::error, "alas");

  EXPECT_EQ(errno, EPROTO);
  EXPECT_EQ(testing::internal::GetCapturedStderr(),
            fmt::format("softverbs[{}]: error: alas\n", ::getpid()));
}

TEST(softverbs_log, stays_silent_below_the_threshold) {
  testing::internal::CaptureStderr();
  log(log_level::warning, "{} and {}", 1, "two");
  log(log_level::debug, "never seen");

  EXPECT_EQ(testing::internal::GetCapturedStderr(),
            fmt::format("softverbs[{}]: warning: 1 and two\n", ::getpid()));
}
