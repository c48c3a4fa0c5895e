#pragma once

// device_attributes: a device's limits and capabilities.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include <infiniband/verbs.h>

#include <rdmaxx/core/flags.hpp>
#include <rdmaxx/core/identifiers.hpp>

namespace RDMAXX_NAMESPACE {

enum class device_capability : std::uint64_t {
  resize_max_wr = IBV_DEVICE_RESIZE_MAX_WR,
  bad_pkey_counter = IBV_DEVICE_BAD_PKEY_CNTR,
  bad_qkey_counter = IBV_DEVICE_BAD_QKEY_CNTR,
  raw_multicast = IBV_DEVICE_RAW_MULTI,
  auto_path_migration = IBV_DEVICE_AUTO_PATH_MIG,
  change_physical_port = IBV_DEVICE_CHANGE_PHY_PORT,
  ud_av_port_enforce = IBV_DEVICE_UD_AV_PORT_ENFORCE,
  current_qp_state_modify = IBV_DEVICE_CURR_QP_STATE_MOD,
  shutdown_port = IBV_DEVICE_SHUTDOWN_PORT,
  init_type = IBV_DEVICE_INIT_TYPE,
  port_active_event = IBV_DEVICE_PORT_ACTIVE_EVENT,
  system_image_guid = IBV_DEVICE_SYS_IMAGE_GUID,
  rc_rnr_nak = IBV_DEVICE_RC_RNR_NAK_GEN,
  srq_resize = IBV_DEVICE_SRQ_RESIZE,
  n_notify_cq = IBV_DEVICE_N_NOTIFY_CQ,
  memory_window = IBV_DEVICE_MEM_WINDOW,
  ud_ip_checksum = IBV_DEVICE_UD_IP_CSUM,
  xrc = IBV_DEVICE_XRC,
  memory_management_extensions = IBV_DEVICE_MEM_MGT_EXTENSIONS,
  memory_window_type_2a = IBV_DEVICE_MEM_WINDOW_TYPE_2A,
  memory_window_type_2b = IBV_DEVICE_MEM_WINDOW_TYPE_2B,
  rc_ip_checksum = IBV_DEVICE_RC_IP_CSUM,
  raw_ip_checksum = IBV_DEVICE_RAW_IP_CSUM,
  managed_flow_steering = IBV_DEVICE_MANAGED_FLOW_STEERING,
  raw_scatter_fcs = IBV_DEVICE_RAW_SCATTER_FCS,
  pci_write_end_padding = IBV_DEVICE_PCI_WRITE_END_PADDING,
};
template <>
inline constexpr bool is_flag_enum<device_capability> = true;
[[nodiscard]] std::string_view describe(device_capability bit) noexcept;

enum class atomic_capability : std::uint8_t {
  none = IBV_ATOMIC_NONE,
  device = IBV_ATOMIC_HCA,   ///< atomic among the operations of this device
  global = IBV_ATOMIC_GLOB,  ///< atomic also towards the CPU and other devices
};
[[nodiscard]] std::string_view describe(atomic_capability capability) noexcept;

/// Which operations can touch on-demand-paged memory, per transport; the C bits IBV_ODP_SUPPORT_*.
struct on_demand_paging {
  bool supported = false;
  bool implicit = false;
  std::uint32_t rc = 0;
  std::uint32_t uc = 0;
  std::uint32_t ud = 0;
  std::uint32_t xrc = 0;
};
[[nodiscard]] std::string describe(const on_demand_paging& paging);

/// What only the extended query reports.
struct extended_device_attributes {
  flags<device_capability> capabilities{};
  on_demand_paging paging{};
  std::uint64_t completion_timestamp_mask = 0;  ///< 0: no hardware timestamps
  std::uint64_t core_clock_khz = 0;
  std::uint32_t max_tso_bytes = 0;
  std::uint32_t max_rx_hash_tables = 0;
  std::uint32_t max_tag_matching_tags = 0;
  std::uint16_t max_cq_moderation_count = 0;
  std::uint16_t max_cq_moderation_period_us = 0;
  std::uint64_t max_device_memory_bytes = 0;
  std::uint32_t min_rate_limit_kbps = 0;
  std::uint32_t max_rate_limit_kbps = 0;
};
[[nodiscard]] std::string describe(const extended_device_attributes& extended);

struct device_attributes {
  std::string firmware_version{};
  guid node_guid{};
  guid system_image_guid{};
  std::uint32_t vendor_id = 0;
  std::uint32_t vendor_part_id = 0;
  std::uint32_t hardware_version = 0;
  std::uint8_t physical_ports = 0;
  flags<device_capability> capabilities{};
  atomic_capability atomics = atomic_capability::none;
  std::uint64_t max_mr_bytes = 0;
  std::uint64_t page_size_mask = 0;
  std::uint32_t max_qp = 0;
  std::uint32_t max_qp_wr = 0;
  std::uint32_t max_sge = 0;
  std::uint32_t max_sge_read = 0;
  std::uint32_t max_cq = 0;
  std::uint32_t max_cqe = 0;
  std::uint32_t max_mr = 0;
  std::uint32_t max_pd = 0;
  std::uint32_t max_qp_read_atomic = 0;       ///< reads and atomics a QP can answer at a time
  std::uint32_t max_device_read_atomic = 0;   ///< … all QPs together
  std::uint32_t max_qp_init_read_atomic = 0;  ///< reads and atomics a QP can have outstanding
  std::uint32_t max_mw = 0;
  std::uint32_t max_multicast_groups = 0;
  std::uint32_t max_multicast_qp_attach = 0;
  std::uint32_t max_ah = 0;
  std::uint32_t max_srq = 0;
  std::uint32_t max_srq_wr = 0;
  std::uint32_t max_srq_sge = 0;
  std::uint16_t max_pkeys = 0;
  std::uint8_t local_ack_delay = 0;  ///< an exponent: 4.096 us · 2^n
  /// Empty where the driver has no extended query.
  std::optional<extended_device_attributes> extended{};

  [[nodiscard]] static device_attributes from_native(const ibv_device_attr& native);
  [[nodiscard]] static device_attributes from_native(const ibv_device_attr_ex& native);
};
[[nodiscard]] std::string describe(const device_attributes& device);

}  // namespace RDMAXX_NAMESPACE
