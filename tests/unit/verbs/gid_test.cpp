#include <rdmaxx/verbs/gid.hpp>

#include <array>
#include <cstdint>
#include <string_view>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <rdmaxx/core/format.hpp>

using namespace rdmaxx;
using testing::HasSubstr;
using namespace std::literals;

namespace {

gid address(std::string_view text) { return gid::parse(text).value(); }

}  // namespace

TEST(gid, an_ipv4_address_is_mapped) {
  const auto parsed = address("10.0.0.7");

  EXPECT_EQ(parsed.raw(),
            (std::array<std::uint8_t, 16>{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 10, 0, 0, 7}));
  EXPECT_TRUE(parsed.is_ipv4_mapped());
  EXPECT_EQ(describe(parsed), "::ffff:10.0.0.7");
  EXPECT_EQ(address("::ffff:10.0.0.7"), parsed);
}

TEST(gid, an_ipv6_address_is_taken_as_it_is) {
  const auto parsed = address("fd77::1:2");

  EXPECT_EQ(parsed.raw()[0], 0xfd);
  EXPECT_EQ(parsed.raw()[13], 1);
  EXPECT_EQ(parsed.raw()[15], 2);
  EXPECT_FALSE(parsed.is_ipv4_mapped());
  EXPECT_EQ(describe(parsed), "fd77::1:2");
}

TEST(gid, what_is_described_parses_back) {
  for (const auto text :
       {"::", "::1", "fe80::1", "fd77::", "::ffff:1.2.3.4", "1:2:3:4:5:6:7:8", "ff02::fb"}) {
    EXPECT_EQ(describe(address(text)), text);
    EXPECT_EQ(fmt::format("{}", address(text)), text);
  }
}

TEST(gid, garbage_is_an_error_that_shows_the_text_and_how_to_write_it) {
  for (const auto text :
       {""sv, "10.0.0"sv, "10.0.0.256"sv, "10.0.0.1 "sv, " 10.0.0.1"sv, "fe80::1::2"sv,
        "fe80::1%eth0"sv, "10.0.0.1/24"sv, "localhost"sv, "10.0.0.1\0junk"sv}) {
    const auto failed = gid::parse(text);

    ASSERT_FALSE(failed.has_value()) << text;
    EXPECT_EQ(failed.error().category(), error_category::misuse);
    EXPECT_THAT(failed.error().problem(), HasSubstr(text));
    EXPECT_THAT(failed.error().hint(), HasSubstr("10.0.0.7"));
  }
}

TEST(gid, a_longer_text_may_contain_the_address) {
  EXPECT_EQ(gid::parse("10.0.0.7:18515"sv.substr(0, 8)).value(), address("10.0.0.7"));
}

TEST(gid, survives_the_way_through_the_c_type) {
  const auto original = address("fd77::abcd");

  EXPECT_EQ(gid(original.native()), original);
}

TEST(gid, zero_is_zero) {
  EXPECT_TRUE(gid().is_zero());
  EXPECT_FALSE(address("::1").is_zero());
  EXPECT_FALSE(gid().is_ipv4_mapped());
}

TEST(gid, link_local_is_fe80_slash_10) {
  EXPECT_TRUE(address("fe80::1").is_link_local());
  EXPECT_TRUE(address("febf::1").is_link_local());
  EXPECT_FALSE(address("fec0::1").is_link_local());
  EXPECT_FALSE(address("fe7f::1").is_link_local());
  EXPECT_FALSE(address("ff80::1").is_link_local());
  EXPECT_FALSE(address("169.254.0.1").is_link_local());
}

TEST(gid, is_ordered_byte_by_byte) {
  EXPECT_LT(address("::1"), address("::2"));
  EXPECT_LT(address("::ffff"), address("1::"));
}

TEST(gid, matches_compares_exactly_the_first_bits) {
  const auto everything = address("ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff");
  for (const unsigned bits : {0U, 1U, 7U, 8U, 9U, 63U, 64U, 97U, 127U, 128U}) {
    // Given the same address up to `bits`, and different from there on.
    std::array<std::uint8_t, 16> raw{};
    for (unsigned bit = 0; bit < bits; ++bit)
      raw.at(bit / 8) |= static_cast<std::uint8_t>(0x80U >> (bit % 8));
    const gid prefix(raw);

    EXPECT_TRUE(everything.matches(prefix, bits)) << bits;
    EXPECT_EQ(everything.matches(prefix, bits + 1), bits == 128) << bits;
    if (bits > 0) {
      raw.at((bits - 1) / 8) ^= static_cast<std::uint8_t>(0x80U >> ((bits - 1) % 8));
      EXPECT_FALSE(everything.matches(gid(raw), bits))
          << bits << ": the last bit that counts differs";
      EXPECT_TRUE(everything.matches(gid(raw), bits - 1)) << bits;
    }
  }
}

TEST(subnet, an_ipv4_prefix_counts_from_bit_96) {
  const auto net = subnet::parse("10.77.0.0/24").value();

  EXPECT_EQ(net.bits, 120U);
  EXPECT_TRUE(net.contains(address("10.77.0.200")));
  EXPECT_FALSE(net.contains(address("10.77.1.200")));
  EXPECT_FALSE(net.contains(address("fd77::1")));
}

TEST(subnet, an_ipv6_prefix_counts_from_the_start) {
  const auto net = subnet::parse("fd77::/64").value();

  EXPECT_EQ(net.bits, 64U);
  EXPECT_TRUE(net.contains(address("fd77::1:2:3:4")));
  EXPECT_FALSE(net.contains(address("fd77:0:0:1::1")));
}

TEST(subnet, without_a_slash_it_is_one_host) {
  EXPECT_TRUE(subnet::parse("10.0.0.7").value().contains(address("10.0.0.7")));
  EXPECT_FALSE(subnet::parse("10.0.0.7").value().contains(address("10.0.0.6")));
  EXPECT_EQ(subnet::parse("fd77::1").value().bits, 128U);
}

TEST(subnet, slash_zero_is_all_of_the_family) {
  EXPECT_TRUE(subnet::parse("0.0.0.0/0").value().contains(address("192.168.1.1")));
  EXPECT_FALSE(subnet::parse("0.0.0.0/0").value().contains(address("fd77::1")));
  EXPECT_TRUE(subnet::parse("::/0").value().contains(address("192.168.1.1")));
}

TEST(subnet, the_longest_prefixes_are_32_and_128) {
  EXPECT_TRUE(subnet::parse("10.0.0.7/32").has_value());
  EXPECT_TRUE(subnet::parse("fd77::1/128").has_value());
  EXPECT_THAT(subnet::parse("10.0.0.7/33").error().problem(), HasSubstr("0 to 32"));
  EXPECT_THAT(subnet::parse("fd77::1/129").error().problem(), HasSubstr("0 to 128"));
}

TEST(subnet, is_described_as_it_is_written) {
  for (const auto* text : {"10.77.0.0/24", "0.0.0.0/0", "10.0.0.7/32", "fd77::/64", "::/0"}) {
    EXPECT_EQ(describe(subnet::parse(text).value()), text);
  }
}

TEST(subnet, malformed_ones_are_errors_with_a_hint) {
  for (const auto text :
       {"", "/24", "10.77.0.0/", "10.77.0.0/x", "10.77.0.0/24x", "10.77.0.0/-1", "10.77.0.0/+8",
        "10.77.0.0/ 8", "10.77.0.0/8/8", "10.77.0.0/99999999999", "elsewhere/8"}) {
    const auto failed = subnet::parse(text);

    ASSERT_FALSE(failed.has_value()) << text;
    EXPECT_EQ(failed.error(), std::errc::invalid_argument);
    EXPECT_FALSE(failed.error().hint().empty()) << text;
  }
}

TEST(gid_entry, is_described_with_its_place_and_netdev) {
  const gid_entry entry{.address = address("10.0.0.1"),
                        .port = 1,
                        .index = 3,
                        .type = gid_type::roce_v2,
                        .netdev = "eth0"};

  EXPECT_EQ(describe(entry), "port 1 gid 3 ::ffff:10.0.0.1 roce_v2 on eth0");
  EXPECT_EQ(describe(gid_entry{.address = address("fe80::1"), .type = gid_type::infiniband}),
            "port 1 gid 0 fe80::1 infiniband");
}
