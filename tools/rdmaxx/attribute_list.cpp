#include "attribute_list.hpp"

#include <string>

#include <fmt/format.h>

namespace rdmaxx::tool {

using nlohmann::ordered_json;

namespace {

template <class Flag>
ordered_json names_of(flags<Flag> set) {
  auto names = ordered_json::array();
  for (auto rest = set.bits(); rest != 0; rest &= rest - 1) {
    names.push_back(describe(flags<Flag>::from_bits(rest & (~rest + 1))));
  }
  return names;
}

ordered_json attribute_list(const on_demand_paging& paging) {
  return {
      {"supported", paging.supported}, {"implicit", paging.implicit},
      {"rc", hexadecimal(paging.rc)},  {"uc", hexadecimal(paging.uc)},
      {"ud", hexadecimal(paging.ud)},  {"xrc", hexadecimal(paging.xrc)},
  };
}

void append(ordered_json& list, const extended_device_attributes& extended) {
  list.update(ordered_json{
      {"extended_capabilities", names_of(extended.capabilities)},
      {"on_demand_paging", attribute_list(extended.paging)},
      {"completion_timestamp_mask", hexadecimal(extended.completion_timestamp_mask)},
      {"core_clock_khz", extended.core_clock_khz},
      {"max_tso_bytes", extended.max_tso_bytes},
      {"max_rx_hash_tables", extended.max_rx_hash_tables},
      {"max_tag_matching_tags", extended.max_tag_matching_tags},
      {"max_cq_moderation_count", extended.max_cq_moderation_count},
      {"max_cq_moderation_period_us", extended.max_cq_moderation_period_us},
      {"max_device_memory_bytes", extended.max_device_memory_bytes},
      {"min_rate_limit_kbps", extended.min_rate_limit_kbps},
      {"max_rate_limit_kbps", extended.max_rate_limit_kbps},
  });
}

}  // namespace

ordered_json attribute_list(const device_attributes& device) {
  ordered_json list{
      {"firmware_version", device.firmware_version},
      {"node_guid", fmt::format("{:#018x}", device.node_guid.value())},
      {"system_image_guid", fmt::format("{:#018x}", device.system_image_guid.value())},
      {"vendor_id", hexadecimal(device.vendor_id)},
      {"vendor_part_id", hexadecimal(device.vendor_part_id)},
      {"hardware_version", hexadecimal(device.hardware_version)},
      {"physical_ports", device.physical_ports},
      {"capabilities", names_of(device.capabilities)},
      {"atomics", describe(device.atomics)},
      {"max_mr_bytes", device.max_mr_bytes},
      {"page_size_mask", hexadecimal(device.page_size_mask)},
      {"max_qp", device.max_qp},
      {"max_qp_wr", device.max_qp_wr},
      {"max_sge", device.max_sge},
      {"max_sge_read", device.max_sge_read},
      {"max_cq", device.max_cq},
      {"max_cqe", device.max_cqe},
      {"max_mr", device.max_mr},
      {"max_pd", device.max_pd},
      {"max_qp_read_atomic", device.max_qp_read_atomic},
      {"max_device_read_atomic", device.max_device_read_atomic},
      {"max_qp_init_read_atomic", device.max_qp_init_read_atomic},
      {"max_mw", device.max_mw},
      {"max_multicast_groups", device.max_multicast_groups},
      {"max_multicast_qp_attach", device.max_multicast_qp_attach},
      {"max_ah", device.max_ah},
      {"max_srq", device.max_srq},
      {"max_srq_wr", device.max_srq_wr},
      {"max_srq_sge", device.max_srq_sge},
      {"max_pkeys", device.max_pkeys},
      {"local_ack_delay", device.local_ack_delay},
  };
  if (device.extended) append(list, *device.extended);
  return list;
}

ordered_json attribute_list(const port_attributes& port) {
  return {
      {"max_message_bytes", port.max_message_bytes},
      {"gid_table_length", port.gid_table_length},
      {"pkey_table_length", port.pkey_table_length},
      {"lid", hexadecimal(port.lid.value())},
      {"sm_lid", hexadecimal(port.sm_lid.value())},
      {"lid_mask_count", port.lid_mask_count},
      {"sm_service_level", port.sm_service_level},
      {"subnet_timeout", port.subnet_timeout},
      {"max_virtual_lanes", port.max_virtual_lanes},
      {"physical_state", port.physical_state},
      {"capability_mask", hexadecimal(port.capability_mask)},
      {"capability_mask2", hexadecimal(port.capability_mask2)},
      {"bad_pkey_count", port.bad_pkey_count},
      {"qkey_violation_count", port.qkey_violation_count},
  };
}

}  // namespace rdmaxx::tool
