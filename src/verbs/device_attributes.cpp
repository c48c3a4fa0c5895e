#include <rdmaxx/verbs/device_attributes.hpp>

#include <algorithm>
#include <concepts>
#include <cstring>

#include <endian.h>
#include <fmt/format.h>

namespace RDMAXX_NAMESPACE {

namespace {

// Drivers use -1 and the like for "no limit"; our limits are never negative.
std::uint32_t limit(int value) noexcept { return static_cast<std::uint32_t>(std::max(value, 0)); }

}  // namespace

std::string_view describe(device_capability bit) noexcept {
  switch (bit) {
    case device_capability::resize_max_wr:
      return "resize_max_wr";
    case device_capability::bad_pkey_counter:
      return "bad_pkey_counter";
    case device_capability::bad_qkey_counter:
      return "bad_qkey_counter";
    case device_capability::raw_multicast:
      return "raw_multicast";
    case device_capability::auto_path_migration:
      return "auto_path_migration";
    case device_capability::change_physical_port:
      return "change_physical_port";
    case device_capability::ud_av_port_enforce:
      return "ud_av_port_enforce";
    case device_capability::current_qp_state_modify:
      return "current_qp_state_modify";
    case device_capability::shutdown_port:
      return "shutdown_port";
    case device_capability::init_type:
      return "init_type";
    case device_capability::port_active_event:
      return "port_active_event";
    case device_capability::system_image_guid:
      return "system_image_guid";
    case device_capability::rc_rnr_nak:
      return "rc_rnr_nak";
    case device_capability::srq_resize:
      return "srq_resize";
    case device_capability::n_notify_cq:
      return "n_notify_cq";
    case device_capability::memory_window:
      return "memory_window";
    case device_capability::ud_ip_checksum:
      return "ud_ip_checksum";
    case device_capability::xrc:
      return "xrc";
    case device_capability::memory_management_extensions:
      return "memory_management_extensions";
    case device_capability::memory_window_type_2a:
      return "memory_window_type_2a";
    case device_capability::memory_window_type_2b:
      return "memory_window_type_2b";
    case device_capability::rc_ip_checksum:
      return "rc_ip_checksum";
    case device_capability::raw_ip_checksum:
      return "raw_ip_checksum";
    case device_capability::managed_flow_steering:
      return "managed_flow_steering";
    case device_capability::raw_scatter_fcs:
      return "raw_scatter_fcs";
    case device_capability::pci_write_end_padding:
      return "pci_write_end_padding";
  }
  return "unknown";
}

std::string_view describe(atomic_capability capability) noexcept {
  switch (capability) {
    case atomic_capability::none:
      return "none";
    case atomic_capability::device:
      return "device";
    case atomic_capability::global:
      return "global";
  }
  return "unknown";
}

std::string describe(const on_demand_paging& paging) {
  if (!paging.supported) return "none";
  return fmt::format("rc {:#x} uc {:#x} ud {:#x} xrc {:#x}{}", paging.rc, paging.uc, paging.ud,
                     paging.xrc, paging.implicit ? " implicit" : "");
}

std::string describe(const extended_device_attributes& extended) {
  return fmt::format(
      "capabilities {} on_demand_paging {} timestamp_mask {:#x} core_clock {} kHz max_tso {} "
      "max_rx_hash_tables {} "
      "max_tags {} cq_moderation {} per {} us device_memory {} rate_limit {}-{} kb/s",
      describe(extended.capabilities), describe(extended.paging),
      extended.completion_timestamp_mask, extended.core_clock_khz, extended.max_tso_bytes,
      extended.max_rx_hash_tables, extended.max_tag_matching_tags, extended.max_cq_moderation_count,
      extended.max_cq_moderation_period_us, extended.max_device_memory_bytes,
      extended.min_rate_limit_kbps, extended.max_rate_limit_kbps);
}

device_attributes device_attributes::from_native(const ibv_device_attr& native) {
  return {
      .firmware_version = std::string(native.fw_ver, strnlen(native.fw_ver, sizeof native.fw_ver)),
      .node_guid = guid(be64toh(native.node_guid)),
      .system_image_guid = guid(be64toh(native.sys_image_guid)),
      .vendor_id = native.vendor_id,
      .vendor_part_id = native.vendor_part_id,
      .hardware_version = native.hw_ver,
      .physical_ports = native.phys_port_cnt,
      .capabilities = flags<device_capability>::from_bits(native.device_cap_flags),
      .atomics = atomic_capability(native.atomic_cap),
      .max_mr_bytes = native.max_mr_size,
      .page_size_mask = native.page_size_cap,
      .max_qp = limit(native.max_qp),
      .max_qp_wr = limit(native.max_qp_wr),
      .max_sge = limit(native.max_sge),
      .max_sge_read = limit(native.max_sge_rd),
      .max_cq = limit(native.max_cq),
      .max_cqe = limit(native.max_cqe),
      .max_mr = limit(native.max_mr),
      .max_pd = limit(native.max_pd),
      .max_qp_read_atomic = limit(native.max_qp_rd_atom),
      .max_device_read_atomic = limit(native.max_res_rd_atom),
      .max_qp_init_read_atomic = limit(native.max_qp_init_rd_atom),
      .max_mw = limit(native.max_mw),
      .max_multicast_groups = limit(native.max_mcast_grp),
      .max_multicast_qp_attach = limit(native.max_mcast_qp_attach),
      .max_ah = limit(native.max_ah),
      .max_srq = limit(native.max_srq),
      .max_srq_wr = limit(native.max_srq_wr),
      .max_srq_sge = limit(native.max_srq_sge),
      .max_pkeys = native.max_pkeys,
      .local_ack_delay = native.local_ca_ack_delay,
  };
}

device_attributes device_attributes::from_native(const ibv_device_attr_ex& native) {
  device_attributes attributes = from_native(native.orig_attr);
  attributes.extended = extended_device_attributes{
      .capabilities = flags<device_capability>::from_bits(native.device_cap_flags_ex),
      .paging = {.supported = (native.odp_caps.general_caps & IBV_ODP_SUPPORT) != 0,
                 .implicit = (native.odp_caps.general_caps & IBV_ODP_SUPPORT_IMPLICIT) != 0,
                 .rc = native.odp_caps.per_transport_caps.rc_odp_caps,
                 .uc = native.odp_caps.per_transport_caps.uc_odp_caps,
                 .ud = native.odp_caps.per_transport_caps.ud_odp_caps,
                 .xrc = native.xrc_odp_caps},
      .completion_timestamp_mask = native.completion_timestamp_mask,
      .core_clock_khz = native.hca_core_clock,
      .max_tso_bytes = native.tso_caps.max_tso,
      .max_rx_hash_tables = native.rss_caps.max_rwq_indirection_tables,
      .max_tag_matching_tags = native.tm_caps.max_num_tags,
      .max_cq_moderation_count = native.cq_mod_caps.max_cq_count,
      .max_cq_moderation_period_us = native.cq_mod_caps.max_cq_period,
      .max_device_memory_bytes = native.max_dm_size,
      .min_rate_limit_kbps = native.packet_pacing_caps.qp_rate_limit_min,
      .max_rate_limit_kbps = native.packet_pacing_caps.qp_rate_limit_max,
  };
  return attributes;
}

std::string describe(const device_attributes& device) {
  std::string text = fmt::format(
      "firmware \"{}\" guid {:#x} vendor {:#x} part {:#x} ports {} atomics {} max_qp {} max_qp_wr "
      "{} max_sge {} "
      "max_cq {} max_cqe {} max_mr {} max_mr_bytes {} max_pd {} max_qp_read_atomic {} max_srq {} "
      "max_mw {} max_ah {} "
      "capabilities {}",
      device.firmware_version, device.node_guid.value(), device.vendor_id, device.vendor_part_id,
      device.physical_ports, describe(device.atomics), device.max_qp, device.max_qp_wr,
      device.max_sge, device.max_cq, device.max_cqe, device.max_mr, device.max_mr_bytes,
      device.max_pd, device.max_qp_read_atomic, device.max_srq, device.max_mw, device.max_ah,
      describe(device.capabilities));
  if (device.extended) text += fmt::format(" extended: {}", describe(*device.extended));
  return text;
}

}  // namespace RDMAXX_NAMESPACE
