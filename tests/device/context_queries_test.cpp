// What a device, its ports and its tables tell about themselves.

#include <algorithm>
#include <cstdint>
#include <string>

#include <gtest/gtest.h>
#include <net/if.h>

#include <rdmaxx/rdmaxx.hpp>

#include "device_under_test.hpp"

namespace rdmaxx::device_tests {

namespace {

class context_queries : public device_test {};

TEST_F(context_queries, the_device_tells_its_limits_as_the_c_api_does) {
  ibv_device_attr expected{};
  ASSERT_EQ(ibv_query_device(ctx.native(), &expected), 0);

  const auto found = ctx.query_device().value();

  EXPECT_EQ(found.max_qp_wr, static_cast<std::uint32_t>(expected.max_qp_wr));
  EXPECT_EQ(found.max_sge, static_cast<std::uint32_t>(expected.max_sge));
  EXPECT_EQ(found.max_cqe, static_cast<std::uint32_t>(expected.max_cqe));
  EXPECT_EQ(found.max_mr_bytes, expected.max_mr_size);
  EXPECT_EQ(found.physical_ports, expected.phys_port_cnt);
  EXPECT_EQ(found.vendor_id, expected.vendor_id);
  EXPECT_EQ(found.capabilities.bits(), expected.device_cap_flags);
  EXPECT_GE(found.physical_ports, 1);
}

TEST_F(context_queries, a_port_tells_its_state_and_limits_as_the_c_api_does) {
  ibv_port_attr expected{};
  ASSERT_EQ(ibv_query_port(ctx.native(), 1, &expected), 0);

  const auto found = ctx.query_port(1).value();

  EXPECT_EQ(found.number, 1);
  EXPECT_EQ(found.state, port_state::active);
  EXPECT_NE(found.link_layer, link_layer::unspecified);
  EXPECT_EQ(static_cast<unsigned>(found.active_mtu), static_cast<unsigned>(expected.active_mtu));
  EXPECT_EQ(static_cast<unsigned>(found.max_mtu), static_cast<unsigned>(expected.max_mtu));
  EXPECT_EQ(found.max_message_bytes, expected.max_msg_sz);
  EXPECT_EQ(found.gid_table_length, static_cast<std::uint32_t>(expected.gid_tbl_len));
  EXPECT_EQ(found.pkey_table_length, expected.pkey_tbl_len);
  EXPECT_EQ(found.lid.value(), expected.lid);
}

TEST_F(context_queries, all_ports_are_listed_by_number) {
  const auto ports = ctx.query_ports().value();

  ASSERT_EQ(ports.size(), dut.attributes().physical_ports);
  for (std::size_t i = 0; i < ports.size(); ++i) EXPECT_EQ(ports[i].number, i + 1);
}

TEST_F(context_queries, a_port_that_is_not_there_is_an_error_that_says_how_they_count) {
  for (const std::uint8_t port :
       {std::uint8_t{0}, static_cast<std::uint8_t>(dut.attributes().physical_ports + 1)}) {
    const auto found = ctx.query_port(port);

    ASSERT_FALSE(found.has_value());
    EXPECT_EQ(found.error().category(), error_category::misuse);
    EXPECT_NE(found.error().problem().find("no port " + std::to_string(port)),
              std::string_view::npos)
        << found.error();
    EXPECT_NE(found.error().hint().find("from 1"), std::string_view::npos) << found.error();
  }
}

TEST_F(context_queries, every_row_of_the_gid_table_is_what_its_index_says) {
  const auto table = ctx.query_gid_table().value();

  ASSERT_FALSE(table.empty());
  for (const auto& row : table) {
    EXPECT_EQ(ctx.query_gid(row.port, row.index).value(), row.address) << row;
    EXPECT_FALSE(row.address.is_zero()) << row;
  }
}

TEST_F(context_queries, rows_of_the_gid_table_name_their_netdev) {
  RDMAXX_NEEDS(capability::ip_gids);
  ASSERT_TRUE(dut.netdev().has_value());

  for (const auto& row : ctx.query_gid_table().value()) {
    EXPECT_EQ(row.netdev, dut.netdev()->name) << row;
    EXPECT_EQ(row.netdev_index, if_nametoindex(row.netdev.c_str())) << row;
    EXPECT_TRUE(row.type == gid_type::roce_v2 || row.type == gid_type::roce_v1) << row;
  }
}

TEST_F(context_queries, the_gid_table_holds_the_netdevs_addresses) {
  RDMAXX_NEEDS(capability::ip_gids);
  const auto table = ctx.query_gid_table().value();
  const auto holds = [&](const gid& address) {
    return std::ranges::find(table, address, &gid_entry::address) != table.end();
  };

  EXPECT_TRUE(holds(gid::parse(text_of(dut.netdev()->ipv4.value())).value()));
  if (dut.has(capability::ipv6_gids)) {
    EXPECT_TRUE(holds(gid::parse(text_of(dut.netdev()->ipv6.value())).value()));
  }
}

TEST_F(context_queries, an_index_beyond_the_gid_table_is_an_error_that_says_its_length) {
  const auto length = ctx.query_port(1).value().gid_table_length;

  const auto found = ctx.query_gid(1, length);

  ASSERT_FALSE(found.has_value());
  EXPECT_EQ(found.error().category(), error_category::misuse);
  EXPECT_NE(found.error().hint().find(std::to_string(length)), std::string_view::npos)
      << found.error();
}

TEST_F(context_queries, the_default_pkey_is_the_first) {
  RDMAXX_NEEDS(capability::pkeys);

  EXPECT_EQ(ctx.query_pkey(1, 0).value(), pkey{0xffff});
}

TEST_F(context_queries, an_index_beyond_the_pkey_table_is_an_error_that_says_its_length) {
  const auto length = ctx.query_port(1).value().pkey_table_length;

  const auto found = ctx.query_pkey(1, length);

  ASSERT_FALSE(found.has_value());
  EXPECT_EQ(found.error().category(), error_category::misuse);
  EXPECT_NE(found.error().hint().find(std::to_string(length)), std::string_view::npos)
      << found.error();
}

}  // namespace
}  // namespace rdmaxx::device_tests
