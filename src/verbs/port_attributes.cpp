#include <rdmaxx/verbs/port_attributes.hpp>

#include <fmt/format.h>

namespace RDMAXX_NAMESPACE {

namespace {

// IBTA PortInfo:LinkWidthActive and LinkSpeedActive.
unsigned lanes(std::uint8_t width) noexcept {
  switch (width) {
    case 1:
      return 1;
    case 2:
      return 4;
    case 4:
      return 8;
    case 8:
      return 12;
    case 16:
      return 2;
    default:
      return 0;
  }
}

double gigabits_per_lane(std::uint8_t speed) noexcept {
  switch (speed) {
    case 1:
      return 2.5;
    case 2:
      return 5;
    case 4:
    case 8:
      return 10;
    case 16:
      return 14;
    case 32:
      return 25;
    case 64:
      return 50;
    case 128:
      return 100;
    default:
      return 0;
  }
}

}  // namespace

std::string_view describe(port_state state) noexcept {
  switch (state) {
    case port_state::nop:
      return "nop";
    case port_state::down:
      return "down";
    case port_state::init:
      return "init";
    case port_state::armed:
      return "armed";
    case port_state::active:
      return "active";
    case port_state::active_defer:
      return "active_defer";
  }
  return "unknown";
}

std::string_view describe(link_layer layer) noexcept {
  switch (layer) {
    case link_layer::unspecified:
      return "unspecified";
    case link_layer::infiniband:
      return "infiniband";
    case link_layer::ethernet:
      return "ethernet";
  }
  return "unknown";
}

std::string_view describe(mtu size) noexcept {
  switch (size) {
    case mtu::mtu_256:
      return "256";
    case mtu::mtu_512:
      return "512";
    case mtu::mtu_1024:
      return "1024";
    case mtu::mtu_2048:
      return "2048";
    case mtu::mtu_4096:
      return "4096";
  }
  return "unknown";
}

port_attributes port_attributes::from_native(std::uint8_t number, const ibv_port_attr& native) {
  return {
      .number = number,
      .state = port_state(native.state),
      .max_mtu = mtu(native.max_mtu),
      .active_mtu = mtu(native.active_mtu),
      .link_layer = rdmaxx::link_layer(native.link_layer),
      .max_message_bytes = native.max_msg_sz,
      .gid_table_length = static_cast<std::uint32_t>(native.gid_tbl_len),
      .pkey_table_length = native.pkey_tbl_len,
      .lid = rdmaxx::lid(native.lid),
      .sm_lid = rdmaxx::lid(native.sm_lid),
      .lid_mask_count = native.lmc,
      .sm_service_level = native.sm_sl,
      .subnet_timeout = native.subnet_timeout,
      .max_virtual_lanes = native.max_vl_num,
      .active_width = native.active_width,
      .active_speed = native.active_speed,
      .physical_state = native.phys_state,
      .capability_mask = native.port_cap_flags,
      .capability_mask2 = native.port_cap_flags2,
      .bad_pkey_count = native.bad_pkey_cntr,
      .qkey_violation_count = native.qkey_viol_cntr,
  };
}

std::string port_attributes::link_speed() const {
  if (lanes(active_width) == 0 || gigabits_per_lane(active_speed) == 0) return {};
  return fmt::format("{}x {} Gb/s", lanes(active_width), gigabits_per_lane(active_speed));
}

std::string describe(const port_attributes& port) {
  return fmt::format("port {} {} {} mtu {} of {} lid {:#x} gids {} pkeys {} max_message {}",
                     port.number, describe(port.state), describe(port.link_layer),
                     describe(port.active_mtu), describe(port.max_mtu), port.lid.value(),
                     port.gid_table_length, port.pkey_table_length, port.max_message_bytes);
}

}  // namespace RDMAXX_NAMESPACE
