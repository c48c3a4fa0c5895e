#include <rdmaxx/verbs/port_attributes.hpp>

#include <cstdint>

#include <gtest/gtest.h>

using namespace rdmaxx;

TEST(port_attributes, every_member_comes_from_its_c_counterpart) {
  ibv_port_attr native{};
  native.state = IBV_PORT_ACTIVE;
  native.max_mtu = IBV_MTU_4096;
  native.active_mtu = IBV_MTU_1024;
  native.gid_tbl_len = 1;
  native.port_cap_flags = 2;
  native.max_msg_sz = 3;
  native.bad_pkey_cntr = 4;
  native.qkey_viol_cntr = 5;
  native.pkey_tbl_len = 6;
  native.lid = 7;
  native.sm_lid = 8;
  native.lmc = 9;
  native.max_vl_num = 10;
  native.sm_sl = 11;
  native.subnet_timeout = 12;
  native.active_width = 2;
  native.active_speed = 32;
  native.phys_state = 13;
  native.link_layer = IBV_LINK_LAYER_ETHERNET;
  native.port_cap_flags2 = 14;

  const auto port = port_attributes::from_native(3, native);

  EXPECT_EQ(port.number, 3);
  EXPECT_EQ(port.state, port_state::active);
  EXPECT_EQ(port.max_mtu, mtu::mtu_4096);
  EXPECT_EQ(port.active_mtu, mtu::mtu_1024);
  EXPECT_EQ(port.gid_table_length, 1U);
  EXPECT_EQ(port.capability_mask, 2U);
  EXPECT_EQ(port.max_message_bytes, 3U);
  EXPECT_EQ(port.bad_pkey_count, 4U);
  EXPECT_EQ(port.qkey_violation_count, 5U);
  EXPECT_EQ(port.pkey_table_length, 6);
  EXPECT_EQ(port.lid, lid(7));
  EXPECT_EQ(port.sm_lid, lid(8));
  EXPECT_EQ(port.lid_mask_count, 9);
  EXPECT_EQ(port.max_virtual_lanes, 10);
  EXPECT_EQ(port.sm_service_level, 11);
  EXPECT_EQ(port.subnet_timeout, 12);
  EXPECT_EQ(port.physical_state, 13);
  EXPECT_EQ(port.link_layer, link_layer::ethernet);
  EXPECT_EQ(port.capability_mask2, 14);
  EXPECT_EQ(port.link_speed(), "4x 25 Gb/s");
  EXPECT_EQ(describe(port),
            "port 3 active ethernet mtu 1024 of 4096 lid 0x7 gids 1 pkeys 6 max_message 3");
}

TEST(port_attributes, widths_and_speeds_are_the_specifications_codes) {
  const auto speed = [](std::uint8_t width, std::uint8_t code) {
    return port_attributes{.active_width = width, .active_speed = code}.link_speed();
  };

  EXPECT_EQ(speed(1, 1), "1x 2.5 Gb/s");
  EXPECT_EQ(speed(8, 64), "12x 50 Gb/s");
  EXPECT_EQ(speed(16, 128), "2x 100 Gb/s");
  EXPECT_EQ(speed(0, 1), "");
  EXPECT_EQ(speed(1, 0), "");
  EXPECT_EQ(speed(3, 3), "");
}

TEST(mtu, has_its_bytes) {
  EXPECT_EQ(bytes_of(mtu::mtu_256), 256U);
  EXPECT_EQ(bytes_of(mtu::mtu_4096), 4096U);
}
