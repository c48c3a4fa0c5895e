#include <net/address.hpp>

#include <cstring>
#include <string>

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>

using namespace softverbs::net;

namespace {

address parse(const std::string& text) {
  sockaddr_in four{};
  four.sin_family = AF_INET;
  if (::inet_pton(AF_INET, text.c_str(), &four.sin_addr) == 1) {
    return address::from_sockaddr(reinterpret_cast<const sockaddr*>(&four));
  }
  sockaddr_in6 six{};
  six.sin6_family = AF_INET6;
  EXPECT_EQ(::inet_pton(AF_INET6, text.c_str(), &six.sin6_addr), 1) << text;
  return address::from_sockaddr(reinterpret_cast<const sockaddr*>(&six));
}

}  // namespace

TEST(softverbs_address, ipv4_is_mapped_into_ipv6) {
  const auto four = parse("192.0.2.7");

  EXPECT_TRUE(four.is_ipv4());
  EXPECT_EQ(four.raw,
            (std::array<std::uint8_t, 16>{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 192, 0, 2, 7}));
  EXPECT_EQ(four, parse("::ffff:192.0.2.7"));
  EXPECT_EQ(four.text(), "192.0.2.7");
}

TEST(softverbs_address, ipv6_stays_as_it_is) {
  const auto six = parse("2001:db8::1");

  EXPECT_FALSE(six.is_ipv4());
  EXPECT_EQ(six.text(), "2001:db8::1");
  EXPECT_FALSE(parse("::").is_ipv4());
}

TEST(softverbs_address, knows_its_kind) {
  for (const auto* const text : {"127.0.0.1", "127.9.9.9", "::1"}) {
    EXPECT_TRUE(parse(text).is_loopback()) << text;
  }
  for (const auto* const text : {"128.0.0.1", "::2", "::", "fe80::1"}) {
    EXPECT_FALSE(parse(text).is_loopback()) << text;
  }
  for (const auto* const text : {"fe80::1", "febf::1", "169.254.3.4"}) {
    EXPECT_TRUE(parse(text).is_link_local()) << text;
  }
  for (const auto* const text : {"fec0::1", "fd00::1", "169.253.3.4", "127.0.0.1"}) {
    EXPECT_FALSE(parse(text).is_link_local()) << text;
  }
  for (const auto* const text : {"224.0.0.1", "239.255.255.255", "ff02::1"}) {
    EXPECT_TRUE(parse(text).is_multicast()) << text;
  }
  for (const auto* const text : {"223.0.0.1", "240.0.0.1", "fe80::1", "::1"}) {
    EXPECT_FALSE(parse(text).is_multicast()) << text;
  }
}

TEST(softverbs_address, survives_the_way_to_a_socket_address_and_back) {
  for (const auto* const text : {"192.0.2.7", "2001:db8::1", "fe80::1", "ff02::1", "::1"}) {
    sockaddr_storage storage;
    std::memset(&storage, 0xee, sizeof storage);
    const auto bytes = parse(text).to_sockaddr(4791, 3, storage);

    EXPECT_EQ(bytes, parse(text).is_ipv4() ? sizeof(sockaddr_in) : sizeof(sockaddr_in6)) << text;
    EXPECT_EQ(address::from_sockaddr(reinterpret_cast<const sockaddr*>(&storage)), parse(text));
    sockaddr_in common{};  // the port stands in the same place
    std::memcpy(&common, &storage, sizeof common);
    EXPECT_EQ(ntohs(common.sin_port), 4791) << text;
  }
}

TEST(softverbs_address, has_a_scope_only_where_it_needs_one) {
  const auto scope_of = [](const char* text) {
    sockaddr_storage storage{};
    EXPECT_EQ(parse(text).to_sockaddr(1, 3, storage), sizeof(sockaddr_in6));
    sockaddr_in6 six{};
    std::memcpy(&six, &storage, sizeof six);
    return six.sin6_scope_id;
  };
  EXPECT_EQ(scope_of("fe80::1"), 3U);
  EXPECT_EQ(scope_of("ff02::1"), 3U);
  EXPECT_EQ(scope_of("ff0e::1"), 0U);
  EXPECT_EQ(scope_of("2001:db8::1"), 0U);
}

TEST(softverbs_address, stands_for_all_or_for_this_host) {
  EXPECT_EQ(address::any(true), parse("0.0.0.0"));
  EXPECT_EQ(address::any(false), parse("::"));
  EXPECT_EQ(address::loopback(true), parse("127.0.0.1"));
  EXPECT_EQ(address::loopback(false), parse("::1"));
  for (const bool ipv4 : {true, false}) {
    EXPECT_TRUE(address::any(ipv4).is_any());
    EXPECT_FALSE(address::loopback(ipv4).is_any());
  }
}

TEST(softverbs_address, of_another_family_is_zero) {
  sockaddr_storage other{};
  other.ss_family = AF_UNIX;

  EXPECT_EQ(address::from_sockaddr(reinterpret_cast<const sockaddr*>(&other)), address{});
}
