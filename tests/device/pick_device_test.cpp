// pick_device(), pick_gid(): the right device and address for a purpose, with the reason.

#include <algorithm>
#include <string>
#include <string_view>

#include <gtest/gtest.h>

#include <rdmaxx/rdmaxx.hpp>

#include "device_under_test.hpp"

namespace rdmaxx::device_tests {

namespace {

class picking : public device_test {
 protected:
  void expect_device_under_test(const device_choice& choice) const {
    EXPECT_EQ(choice.context().device_name(), dut.name()) << choice;
    EXPECT_EQ(choice.port(), 1) << choice;
    EXPECT_EQ(choice.context().query_gid(choice.port(), choice.gid_index()).value(),
              choice.entry().address)
        << choice;
    EXPECT_NE(choice.describe().find(dut.name()), std::string::npos);
    EXPECT_NE(choice.describe().find("active"), std::string::npos) << choice;
  }

  [[nodiscard]] std::string ipv4() const { return text_of(dut.netdev()->ipv4.value()); }
  [[nodiscard]] std::string ipv6() const { return text_of(dut.netdev()->ipv6.value()); }
};

TEST_F(picking, by_name) {
  const auto choice = pick_device({.name = dut.name()}).value();

  expect_device_under_test(choice);
  EXPECT_NE(choice.describe().find("name"), std::string::npos) << choice;
}

TEST_F(picking, by_guid) {
  expect_device_under_test(pick_device({.guid = dut.attributes().node_guid}).value());
}

TEST_F(picking, by_gid) {
  for (const auto& row : ctx.query_gid_table().value()) {
    const auto choice = pick_device({.gid = row.address}).value();

    expect_device_under_test(choice);
    EXPECT_EQ(choice.entry().address, row.address);
  }
}

TEST_F(picking, by_subnet) {
  RDMAXX_NEEDS(capability::ip_gids);

  const auto choice = pick_device({.subnet = ipv4() + "/24"}).value();

  expect_device_under_test(choice);
  EXPECT_TRUE(choice.entry().address.is_ipv4_mapped()) << choice;
  EXPECT_NE(choice.describe().find("/24"), std::string::npos) << choice;
}

TEST_F(picking, by_ipv6_subnet) {
  RDMAXX_NEEDS(capability::ipv6_gids);

  const auto choice = pick_device({.subnet = ipv6() + "/64"}).value();

  expect_device_under_test(choice);
  EXPECT_FALSE(choice.entry().address.is_ipv4_mapped()) << choice;
}

TEST_F(picking, by_route_to_a_neighbour) {
  if (!dut.netdev() || !dut.netdev()->ipv4) GTEST_SKIP() << "the device lacks an IPv4 address";
  auto neighbour = *dut.netdev()->ipv4;
  neighbour.s_addr ^= htonl(0x7);

  const auto choice = pick_device({.route_to = text_of(neighbour)}).value();

  expect_device_under_test(choice);
  EXPECT_NE(choice.describe().find(dut.netdev()->name), std::string::npos) << choice;
  if (dut.has(capability::ip_gids)) {
    EXPECT_TRUE(choice.entry().address.is_ipv4_mapped()) << choice;
  }
}

TEST_F(picking, by_route_to_an_ipv6_neighbour) {
  if (!dut.netdev() || !dut.netdev()->ipv6)
    GTEST_SKIP() << "the device lacks a global IPv6 address";
  auto neighbour = *dut.netdev()->ipv6;
  if (IN6_IS_ADDR_LOOPBACK(&neighbour) == 0) neighbour.s6_addr[15] ^= 0x7;  // ::1 has none

  const auto choice = pick_device({.route_to = text_of(neighbour)}).value();

  expect_device_under_test(choice);
  if (dut.has(capability::ipv6_gids)) {
    EXPECT_EQ(choice.entry().address, gid::parse(ipv6()).value()) << choice;
  }
}

TEST_F(picking, by_everything_at_once) {
  const auto row = ctx.query_gid_table().value().front();

  const auto choice =
      pick_device(
          {.name = dut.name(), .guid = dut.attributes().node_guid, .gid = row.address, .port = 1})
          .value();

  expect_device_under_test(choice);
}

TEST_F(picking, an_empty_query_finds_an_active_device) {
  const auto choice = pick_device().value();

  EXPECT_EQ(choice.context().query_port(choice.port()).value().state, port_state::active);
  EXPECT_FALSE(choice.entry().address.is_link_local()) << choice;
}

TEST_F(picking, an_unknown_name_is_an_error_that_says_why_each_was_refused) {
  const auto choice = pick_device({.name = "nosuch0"});

  ASSERT_FALSE(choice.has_value());
  EXPECT_TRUE(choice.error() == std::errc::no_such_device);
  EXPECT_NE(choice.error().problem().find("nosuch0"), std::string_view::npos) << choice.error();
  EXPECT_NE(choice.error().hint().find(dut.name() + " has another name"), std::string_view::npos)
      << choice.error();
}

TEST_F(picking, an_unknown_address_is_an_error_that_says_why_each_was_refused) {
  const auto choice = pick_device({.subnet = "203.0.113.0/24"});

  ASSERT_FALSE(choice.has_value());
  EXPECT_NE(choice.error().hint().find(dut.name() + " has no address in 203.0.113.0/24"),
            std::string_view::npos)
      << choice.error();
}

TEST_F(picking, a_route_over_another_interface_is_an_error) {
  const auto elsewhere = dut.address_elsewhere();
  const auto choice = pick_device({.name = dut.name(), .route_to = elsewhere});

  ASSERT_FALSE(choice.has_value());
  EXPECT_NE(describe(choice.error()).find(elsewhere), std::string_view::npos) << choice.error();
}

TEST_F(picking, malformed_criteria_are_errors_with_a_hint) {
  for (const auto& query :
       {device_query{.subnet = "10.77.0.0/33"}, device_query{.subnet = "elsewhere"},
        device_query{.route_to = "10.77.0"}, device_query{.port = 0}}) {
    const auto choice = pick_device(query);

    ASSERT_FALSE(choice.has_value()) << describe(query);
    EXPECT_EQ(choice.error().category(), error_category::misuse) << choice.error();
    EXPECT_FALSE(choice.error().hint().empty()) << choice.error();
  }
}

TEST_F(picking, a_port_that_is_not_there_is_an_error) {
  const auto choice = pick_device({.name = dut.name(), .port = 9});

  ASSERT_FALSE(choice.has_value());
  EXPECT_NE(choice.error().hint().find("no port 9"), std::string_view::npos) << choice.error();
}

TEST_F(picking, the_gid_fits_the_peers_address_family_and_is_not_link_local) {
  RDMAXX_NEEDS(capability::ipv6_gids);

  const auto for_ipv4 = pick_gid(ctx, 1, gid::parse("10.1.2.3").value()).value();
  const auto for_ipv6 = pick_gid(ctx, 1, gid::parse("2001:db8::1").value()).value();
  const auto for_anybody = pick_gid(ctx, 1).value();

  EXPECT_EQ(for_ipv4.address, gid::parse(ipv4()).value());
  EXPECT_EQ(for_ipv6.address, gid::parse(ipv6()).value());
  EXPECT_EQ(for_anybody.address, for_ipv4.address);
  EXPECT_EQ(for_ipv4.type, gid_type::roce_v2);
  EXPECT_EQ(for_ipv6.type, gid_type::roce_v2);
}

TEST_F(picking, the_gid_for_a_link_local_peer_is_link_local) {
  RDMAXX_NEEDS(capability::ip_gids);
  const auto table = ctx.query_gid_table().value();
  if (std::ranges::none_of(table,
                           [](const gid_entry& row) { return row.address.is_link_local(); })) {
    GTEST_SKIP() << "the device lacks a link-local GID";
  }

  EXPECT_TRUE(pick_gid(ctx, 1, gid::parse("fe80::1").value()).value().address.is_link_local());
}

TEST_F(picking, a_gid_of_port_0_is_an_error) {
  const auto found = pick_gid(ctx, 0);

  ASSERT_FALSE(found.has_value());
  EXPECT_EQ(found.error().category(), error_category::misuse);
}

}  // namespace
}  // namespace rdmaxx::device_tests
