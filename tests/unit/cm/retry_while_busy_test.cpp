#include "cm/retry_while_busy.hpp"

#include <cerrno>
#include <chrono>

#include <gtest/gtest.h>

using namespace rdmaxx;
using namespace std::chrono_literals;

TEST(retry_while_busy, repeats_what_is_busy_until_it_is_not) {
  int attempts = 0;
  const auto outcome = detail::retry_while_busy([&]() -> result<void> {
    if (++attempts < 5) return errno_error("rdma_migrate_id", EBUSY);
    return {};
  });

  EXPECT_TRUE(outcome.has_value());
  EXPECT_EQ(attempts, 5);
}

TEST(retry_while_busy, other_failures_are_final) {
  int attempts = 0;
  const auto outcome = detail::retry_while_busy([&]() -> result<void> {
    ++attempts;
    return errno_error("rdma_migrate_id", ENODEV);
  });

  EXPECT_EQ(outcome.error(), std::errc::no_such_device);
  EXPECT_EQ(attempts, 1);
}

TEST(retry_while_busy, gives_up_after_a_while) {
  const auto outcome = detail::retry_while_busy(
      []() -> result<void> { return errno_error("rdma_migrate_id", EBUSY); }, 2ms);

  EXPECT_EQ(outcome.error(), std::errc::device_or_resource_busy);
}
