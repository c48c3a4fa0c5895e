#include "cm/loopback.hpp"

#include <gtest/gtest.h>

namespace rdmaxx {

namespace {

TEST(loopback, is_127_and_the_one_of_ipv6) {
  for (const auto* const text : {"127.0.0.1", "127.255.0.9:7", "::1", "[::1]:7471"})
    EXPECT_TRUE(detail::is_loopback(socket_address::parse(text).value())) << text;
  for (const auto* const text :
       {"0.0.0.0", "126.255.255.255", "128.0.0.1", "10.127.0.1", "::", "::2", "fe80::1"})
    EXPECT_FALSE(detail::is_loopback(socket_address::parse(text).value())) << text;
  EXPECT_FALSE(detail::is_loopback({}));
}

}  // namespace

}  // namespace rdmaxx
