#include <rdmaxx/verbs/device_attributes.hpp>

#include <cstdint>
#include <cstring>
#include <string>

#include <endian.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

using namespace rdmaxx;
using testing::HasSubstr;

namespace {

/// A different number in every member, so that two of them cannot be mixed up.
ibv_device_attr numbered() {
  ibv_device_attr native{};
  std::strcpy(native.fw_ver, "1.2.3");
  native.node_guid = htobe64(0x0102030405060708);
  native.sys_image_guid = htobe64(0x1112131415161718);
  native.max_mr_size = std::uint64_t{1} << 40;
  native.page_size_cap = 0xfffff000;
  native.vendor_id = 1;
  native.vendor_part_id = 2;
  native.hw_ver = 3;
  native.max_qp = 4;
  native.max_qp_wr = 5;
  native.device_cap_flags = IBV_DEVICE_XRC | IBV_DEVICE_MEM_WINDOW;
  native.max_sge = 6;
  native.max_sge_rd = 7;
  native.max_cq = 8;
  native.max_cqe = 9;
  native.max_mr = 10;
  native.max_pd = 11;
  native.max_qp_rd_atom = 12;
  native.max_res_rd_atom = 13;
  native.max_qp_init_rd_atom = 14;
  native.atomic_cap = IBV_ATOMIC_GLOB;
  native.max_mw = 15;
  native.max_mcast_grp = 16;
  native.max_mcast_qp_attach = 17;
  native.max_ah = 18;
  native.max_srq = 19;
  native.max_srq_wr = 20;
  native.max_srq_sge = 21;
  native.max_pkeys = 22;
  native.local_ca_ack_delay = 23;
  native.phys_port_cnt = 24;
  return native;
}

}  // namespace

TEST(device_attributes, every_member_comes_from_its_c_counterpart) {
  const auto device = device_attributes::from_native(numbered());

  EXPECT_EQ(device.firmware_version, "1.2.3");
  EXPECT_EQ(device.node_guid, guid(0x0102030405060708)) << "in host order";
  EXPECT_EQ(device.system_image_guid, guid(0x1112131415161718));
  EXPECT_EQ(device.max_mr_bytes, std::uint64_t{1} << 40);
  EXPECT_EQ(device.page_size_mask, 0xfffff000U);
  EXPECT_EQ(device.vendor_id, 1U);
  EXPECT_EQ(device.vendor_part_id, 2U);
  EXPECT_EQ(device.hardware_version, 3U);
  EXPECT_EQ(device.max_qp, 4U);
  EXPECT_EQ(device.max_qp_wr, 5U);
  EXPECT_EQ(device.capabilities, device_capability::xrc | device_capability::memory_window);
  EXPECT_EQ(device.max_sge, 6U);
  EXPECT_EQ(device.max_sge_read, 7U);
  EXPECT_EQ(device.max_cq, 8U);
  EXPECT_EQ(device.max_cqe, 9U);
  EXPECT_EQ(device.max_mr, 10U);
  EXPECT_EQ(device.max_pd, 11U);
  EXPECT_EQ(device.max_qp_read_atomic, 12U);
  EXPECT_EQ(device.max_device_read_atomic, 13U);
  EXPECT_EQ(device.max_qp_init_read_atomic, 14U);
  EXPECT_EQ(device.atomics, atomic_capability::global);
  EXPECT_EQ(device.max_mw, 15U);
  EXPECT_EQ(device.max_multicast_groups, 16U);
  EXPECT_EQ(device.max_multicast_qp_attach, 17U);
  EXPECT_EQ(device.max_ah, 18U);
  EXPECT_EQ(device.max_srq, 19U);
  EXPECT_EQ(device.max_srq_wr, 20U);
  EXPECT_EQ(device.max_srq_sge, 21U);
  EXPECT_EQ(device.max_pkeys, 22U);
  EXPECT_EQ(device.local_ack_delay, 23U);
  EXPECT_EQ(device.physical_ports, 24U);
  EXPECT_FALSE(device.extended.has_value());
}

TEST(device_attributes, the_extended_query_adds_to_the_plain_one) {
  ibv_device_attr_ex native{};
  native.orig_attr = numbered();
  native.device_cap_flags_ex = IBV_DEVICE_PCI_WRITE_END_PADDING;
  native.odp_caps.general_caps = IBV_ODP_SUPPORT | IBV_ODP_SUPPORT_IMPLICIT;
  native.odp_caps.per_transport_caps = {.rc_odp_caps = 1, .uc_odp_caps = 2, .ud_odp_caps = 3};
  native.xrc_odp_caps = 4;
  native.completion_timestamp_mask = 5;
  native.hca_core_clock = 6;
  native.tso_caps.max_tso = 7;
  native.rss_caps.max_rwq_indirection_tables = 8;
  native.tm_caps.max_num_tags = 9;
  native.cq_mod_caps = {.max_cq_count = 10, .max_cq_period = 11};
  native.max_dm_size = 12;
  native.packet_pacing_caps.qp_rate_limit_min = 13;
  native.packet_pacing_caps.qp_rate_limit_max = 14;

  const auto device = device_attributes::from_native(native);

  EXPECT_EQ(device.max_qp, 4U);
  ASSERT_TRUE(device.extended.has_value());
  const auto& extended = *device.extended;
  EXPECT_TRUE(extended.capabilities.has(device_capability::pci_write_end_padding));
  EXPECT_TRUE(extended.paging.supported);
  EXPECT_TRUE(extended.paging.implicit);
  EXPECT_EQ(extended.paging.rc, 1U);
  EXPECT_EQ(extended.paging.uc, 2U);
  EXPECT_EQ(extended.paging.ud, 3U);
  EXPECT_EQ(extended.paging.xrc, 4U);
  EXPECT_EQ(extended.completion_timestamp_mask, 5U);
  EXPECT_EQ(extended.core_clock_khz, 6U);
  EXPECT_EQ(extended.max_tso_bytes, 7U);
  EXPECT_EQ(extended.max_rx_hash_tables, 8U);
  EXPECT_EQ(extended.max_tag_matching_tags, 9U);
  EXPECT_EQ(extended.max_cq_moderation_count, 10U);
  EXPECT_EQ(extended.max_cq_moderation_period_us, 11U);
  EXPECT_EQ(extended.max_device_memory_bytes, 12U);
  EXPECT_EQ(extended.min_rate_limit_kbps, 13U);
  EXPECT_EQ(extended.max_rate_limit_kbps, 14U);
  EXPECT_THAT(describe(device), HasSubstr("extended: capabilities pci_write_end_padding"));
}

TEST(device_attributes, a_firmware_version_that_fills_its_field_is_not_read_beyond_it) {
  ibv_device_attr native{};
  std::memset(native.fw_ver, 'v', sizeof native.fw_ver);

  EXPECT_EQ(device_attributes::from_native(native).firmware_version,
            std::string(sizeof native.fw_ver, 'v'));
}

TEST(device_attributes, negative_limits_of_odd_drivers_become_zero) {
  ibv_device_attr native{};
  native.max_mw = -1;

  EXPECT_EQ(device_attributes::from_native(native).max_mw, 0U);
}

TEST(device_attributes, capabilities_without_a_name_are_kept) {
  ibv_device_attr native{};
  native.device_cap_flags = 0x80000000;

  EXPECT_EQ(device_attributes::from_native(native).capabilities.bits(), 0x80000000U);
}

TEST(device_attributes, are_described) {
  EXPECT_THAT(describe(device_attributes::from_native(numbered())),
              HasSubstr("firmware \"1.2.3\" guid 0x102030405060708"));
  EXPECT_EQ(describe(on_demand_paging{}), "none");
}
