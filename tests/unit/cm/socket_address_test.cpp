#include <rdmaxx/cm/socket_address.hpp>

#include <string>
#include <string_view>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>

#include <rdmaxx/core/format.hpp>

#include "cm/missing_port.hpp"

using namespace rdmaxx;
using testing::Contains;
using testing::HasSubstr;

namespace {

socket_address address(std::string_view text) { return socket_address::parse(text).value(); }

}  // namespace

TEST(socket_address, an_ipv4_address_with_its_port_is_read) {
  const auto parsed = address("10.0.0.7:7471");

  EXPECT_TRUE(parsed.is_ipv4());
  EXPECT_EQ(parsed.host(), "10.0.0.7");
  EXPECT_EQ(parsed.port(), 7471);
  EXPECT_EQ(parsed.native_size(), sizeof(sockaddr_in));
  EXPECT_EQ(describe(parsed), "10.0.0.7:7471");
}

TEST(socket_address, an_ipv6_address_with_its_port_is_read) {
  const auto parsed = address("[fd00::7]:7471");

  EXPECT_TRUE(parsed.is_ipv6());
  EXPECT_EQ(parsed.host(), "fd00::7");
  EXPECT_EQ(parsed.port(), 7471);
  EXPECT_EQ(parsed.native_size(), sizeof(sockaddr_in6));
  EXPECT_EQ(describe(parsed), "[fd00::7]:7471");
}

TEST(socket_address, the_port_may_be_missing) {
  EXPECT_EQ(address("10.0.0.7"), address("10.0.0.7:0"));
  EXPECT_EQ(address("[::1]"), address("[::1]:0"));
  EXPECT_EQ(address("fd00::7"), address("[fd00::7]:0"));
}

TEST(socket_address, the_scope_of_a_link_local_address_is_kept) {
  const auto parsed = address("[fe80::1%lo]:5");

  EXPECT_EQ(parsed.host(), "fe80::1%lo");
  EXPECT_NE(parsed, address("[fe80::1]:5"));
}

TEST(socket_address, malformed_addresses_are_refused_with_an_example) {
  for (const auto* const text : {"", ":", ":7471", "10.0.0.7:", "10.0.0.7:65536", "10.0.0.7:-1",
                                 "10.0.0.7:1x", "10.0.0.256:1", "[::1", "[::1]1", "[]:1", "::1]:1",
                                 "host:1", "[fe80::1%nosuchinterface]:1"}) {
    const auto parsed = socket_address::parse(text);
    ASSERT_FALSE(parsed.has_value()) << text;
    EXPECT_EQ(parsed.error().category(), error_category::misuse);
    EXPECT_THAT(parsed.error().message(), HasSubstr("[fd00::7]:7471"));
  }
}

TEST(socket_address, the_error_for_ipv6_without_brackets_suggests_them) {
  for (const auto* const text : {"1:2:3:4:5:6:7:8:7471", "fd00::zz:7471"}) {
    const auto parsed = socket_address::parse(text);
    ASSERT_FALSE(parsed.has_value()) << text;
    EXPECT_THAT(parsed.error().hint(), HasSubstr("brackets")) << text;
  }
}

TEST(socket_address, the_error_for_an_ipv6_address_that_ends_like_a_port_suggests_brackets) {
  const auto hint = [](std::string_view text) { return detail::bracket_hint(address(text)); };

  EXPECT_EQ(hint("::1:7471"), "; if 7471 is meant to be the port, use brackets: [::1]:7471");
  EXPECT_EQ(hint("fd00::7:7471"),
            "; if 7471 is meant to be the port, use brackets: [fd00::7]:7471");
  EXPECT_EQ(hint("::7471"), "; if 7471 is meant to be the port, use brackets: [::]:7471");
  EXPECT_EQ(hint("[::1]:7471"), "") << "it has a port";
  EXPECT_EQ(hint("1:2:3:4:5:6:7:7471"), "") << "all eight groups are needed";
  EXPECT_EQ(hint("::1"), "; if 1 is meant to be the port, use brackets: [::]:1");
  EXPECT_EQ(hint("::abcd"), "") << "no number";
  EXPECT_EQ(hint("10.0.0.7"), "");
  EXPECT_THAT(std::string(detail::missing_port_error(address("::1:7471")).hint()),
              HasSubstr("use brackets: [::1]:7471"));
}

TEST(socket_address, wildcards_are_known) {
  EXPECT_TRUE(address("0.0.0.0:1").is_any());
  EXPECT_TRUE(address("[::]:1").is_any());
  EXPECT_FALSE(address("127.0.0.1:1").is_any());
  EXPECT_FALSE(address("[::1]:1").is_any());
  EXPECT_FALSE(socket_address().is_any());
}

TEST(socket_address, the_port_can_be_replaced) {
  EXPECT_EQ(address("10.0.0.7:1").with_port(65535), address("10.0.0.7:65535"));
  EXPECT_EQ(address("[::1]:1").with_port(2), address("[::1]:2"));
  EXPECT_FALSE(socket_address().with_port(1));
}

TEST(socket_address, addresses_are_compared_with_their_ports) {
  EXPECT_NE(address("10.0.0.7:1"), address("10.0.0.7:2"));
  EXPECT_NE(address("10.0.0.7:1"), address("10.0.0.8:1"));
  EXPECT_NE(address("0.0.0.0:1"), address("[::]:1"));
  EXPECT_EQ(socket_address(), socket_address());
}

TEST(socket_address, a_c_address_of_another_family_is_none) {
  sockaddr other{};
  other.sa_family = AF_UNIX;

  EXPECT_FALSE(socket_address(other));
  EXPECT_EQ(describe(socket_address(other)), "no address");
  EXPECT_EQ(socket_address(*address("[::1]:9").native()), address("[::1]:9"));
}

TEST(socket_address, an_address_is_looked_up_without_a_resolver) {
  const auto found = socket_address::lookup("10.0.0.7:7471").value();

  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found.front(), address("10.0.0.7:7471"));
}

TEST(socket_address, a_name_is_looked_up) {
  const auto found = socket_address::lookup("localhost:7471").value();

  EXPECT_THAT(found, Contains(address("127.0.0.1:7471")));
}

TEST(socket_address, an_unknown_name_is_reported) {
  const auto found = socket_address::lookup("no-such-host.invalid:7471");

  ASSERT_FALSE(found.has_value());
  EXPECT_THAT(found.error().message(), HasSubstr("no-such-host.invalid"));
}
