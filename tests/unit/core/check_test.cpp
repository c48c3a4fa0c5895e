#include <rdmaxx/core/check.hpp>

#include <cerrno>
#include <limits>

#include <gtest/gtest.h>

using namespace rdmaxx;

TEST(check, zero_is_success_whatever_errno_says) {
  errno = EIO;

  EXPECT_EQ(errno_of(0), 0);
  EXPECT_TRUE(check(0, "call").has_value());
}

TEST(check, positive_is_an_errno) {
  errno = EIO;

  EXPECT_EQ(errno_of(ENOMEM), ENOMEM);
  EXPECT_EQ(check(EPERM, "call").error(), std::errc::operation_not_permitted);
}

TEST(check, minus_one_means_errno) {
  errno = EAGAIN;

  EXPECT_EQ(errno_of(-1), EAGAIN);
  EXPECT_EQ(check(-1, "call").error(), std::errc::resource_unavailable_try_again);
}

TEST(check, minus_one_with_errno_zero_is_still_a_failure) {
  errno = 0;

  EXPECT_EQ(errno_of(-1), EIO);
  EXPECT_FALSE(check(-1, "call").has_value());
}

TEST(check, below_minus_one_is_a_negated_errno) {
  errno = EIO;

  EXPECT_EQ(errno_of(-ENOTCONN), ENOTCONN);
  EXPECT_EQ(errno_of(-2), 2);
  EXPECT_EQ(check(-EINVAL, "call").error(), std::errc::invalid_argument);
}

TEST(check, the_smallest_int_is_still_a_failure) {
  EXPECT_GT(errno_of(std::numeric_limits<int>::min()), 0);
}

TEST(check, names_the_operation) {
  EXPECT_EQ(check(EIO, "ibv_alloc_pd").error().operation(), "ibv_alloc_pd");
}

TEST(check, a_pointer_is_handed_through) {
  int target = 5;

  EXPECT_EQ(check(&target, "call").value(), &target);
}

TEST(check, a_null_pointer_is_described_by_errno) {
  errno = EMFILE;
  const auto failed = check(static_cast<int*>(nullptr), "ibv_open_device");

  ASSERT_FALSE(failed.has_value());
  EXPECT_EQ(failed.error(), std::errc::too_many_files_open);
  EXPECT_EQ(failed.error().operation(), "ibv_open_device");

  errno = 0;
  EXPECT_EQ(check(static_cast<int*>(nullptr), "call").error(), std::errc::io_error);
}
