#include <base/c_function.hpp>

#include <cerrno>
#include <cstdint>
#include <new>
#include <stdexcept>
#include <system_error>

#include <gtest/gtest.h>

using namespace softverbs;

namespace {

enum class thrown : std::uint8_t { nothing, memory, thread, other };

void maybe_throw(thrown what) {
  switch (what) {
    case thrown::nothing:
      return;
    case thrown::memory:
      throw std::bad_alloc();
    case thrown::thread:
      throw std::system_error(EAGAIN, std::generic_category());
    case thrown::other:
      throw std::length_error("too long");
  }
}

int number(thrown what) { return maybe_throw(what), 7; }
int* pointer(thrown what) {
  static int target = 0;
  maybe_throw(what);
  return &target;
}
ssize_t size(thrown what) { return maybe_throw(what), 7; }
std::uint16_t port(thrown what) { return maybe_throw(what), std::uint16_t{7}; }

TEST(softverbs_c_function, returns_what_the_function_returns) {
  EXPECT_EQ(c_function<number>(thrown::nothing), 7);
  EXPECT_NE(c_function<pointer>(thrown::nothing), nullptr);
  EXPECT_EQ(c_function<size>(thrown::nothing), 7);
}

TEST(softverbs_c_function, turns_exceptions_into_the_convention_of_the_function) {
  EXPECT_EQ(c_function<number>(thrown::memory), ENOMEM);
  EXPECT_EQ(c_function<number>(thrown::thread), EAGAIN);
  EXPECT_EQ(c_function<number>(thrown::other), ENOMEM);
  EXPECT_EQ((c_function<number, failure_as::negated_errno>(thrown::thread)), -EAGAIN);
  EXPECT_EQ(c_function<size>(thrown::memory), -ENOMEM);
  errno = 0;
  EXPECT_EQ((c_function<number, failure_as::minus_one>(thrown::thread)), -1);
  EXPECT_EQ(errno, EAGAIN);
  errno = 0;
  EXPECT_EQ(c_function<pointer>(thrown::memory), nullptr);
  EXPECT_EQ(errno, ENOMEM);
  errno = 0;
  EXPECT_EQ(c_function<port>(thrown::memory), 0);
  EXPECT_EQ(errno, ENOMEM);
  static_assert(noexcept(c_function<number>(thrown::memory)));
}

}  // namespace
