// with_address_fallback: a name's addresses are tried one by one, while there is time.

#include "cm/address_fallback.hpp"

#include <array>
#include <cerrno>
#include <chrono>
#include <cstddef>

#include <gtest/gtest.h>

#include <rdmaxx/core/clock.hpp>
#include <rdmaxx/core/readiness.hpp>

namespace rdmaxx {

namespace {

using namespace std::chrono_literals;

struct patient {
  std::chrono::milliseconds timeout = 1s;
};

class with_address_fallback : public ::testing::Test {
 protected:
  /// How many attempts are made that take this long and fail.
  std::size_t attempts(std::chrono::milliseconds each) {
    std::size_t made = 0;
    const auto outcome = detail::with_address_fallback(
        addresses_, deadline_after(patient().timeout), patient(), &patient::timeout,
        [&](const socket_address&, const patient& rest) -> result<int> {
          EXPECT_GT(rest.timeout, 0ms);
          ++made;
          time_.advance(each);
          return errno_error("connecting", ECONNREFUSED);
        });
    EXPECT_FALSE(outcome.has_value());
    return made;
  }

  const std::array<socket_address, 3> addresses_{};
  manual_clock time_;
};

TEST_F(with_address_fallback, tries_all_while_there_is_time) { EXPECT_EQ(attempts(1ms), 3U); }

TEST_F(with_address_fallback, tries_no_further_address_after_the_timeout) {
  EXPECT_EQ(attempts(1s), 1U);
}

}  // namespace

}  // namespace rdmaxx
