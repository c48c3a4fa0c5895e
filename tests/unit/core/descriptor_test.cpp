#include "core/descriptor.hpp"

#include <cerrno>
#include <utility>

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/eventfd.h>

namespace {

using rdmaxx::detail::descriptor;

bool is_open(int fd) { return ::fcntl(fd, F_GETFD) >= 0; }
descriptor new_descriptor() { return descriptor(::eventfd(0, EFD_CLOEXEC)); }

TEST(descriptor, is_closed_at_its_end) {
  int fd = -1;
  {
    const auto one = new_descriptor();
    fd = one.get();
    ASSERT_TRUE(one);
    EXPECT_TRUE(is_open(fd));
  }
  EXPECT_FALSE(is_open(fd));
}

TEST(descriptor, is_closed_by_its_last_owner_alone) {
  auto first = new_descriptor();
  const int fd = first.get();
  descriptor second = std::move(first);
  first = descriptor();
  EXPECT_EQ(second.get(), fd);
  EXPECT_TRUE(is_open(fd));
}

TEST(descriptor, is_closed_when_another_takes_its_place) {
  auto one = new_descriptor();
  auto other = new_descriptor();
  const int replaced = one.get();
  one = std::move(other);
  EXPECT_FALSE(is_open(replaced));
  EXPECT_TRUE(is_open(one.get()));
}

TEST(descriptor, that_ends_leaves_errno_as_it_was) {
  {
    const descriptor none(::open("/none/such", O_RDONLY | O_CLOEXEC));
    const descriptor closed_by_somebody(1 << 20);  // close() fails with EBADF
    EXPECT_FALSE(none);
    errno = ENOENT;
  }
  EXPECT_EQ(errno, ENOENT);
}

}  // namespace
