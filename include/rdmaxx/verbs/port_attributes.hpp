#pragma once

// port_attributes: the state and capabilities of a device's port.

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include <infiniband/verbs.h>

#include <rdmaxx/core/identifiers.hpp>
#include <rdmaxx/core/result.hpp>

namespace RDMAXX_NAMESPACE {

enum class port_state : std::uint8_t {
  nop = IBV_PORT_NOP,
  down = IBV_PORT_DOWN,
  init = IBV_PORT_INIT,
  armed = IBV_PORT_ARMED,
  active = IBV_PORT_ACTIVE,
  active_defer = IBV_PORT_ACTIVE_DEFER,
};
[[nodiscard]] std::string_view describe(port_state state) noexcept;

enum class link_layer : std::uint8_t {
  unspecified = IBV_LINK_LAYER_UNSPECIFIED,
  infiniband = IBV_LINK_LAYER_INFINIBAND,
  ethernet = IBV_LINK_LAYER_ETHERNET,
};
[[nodiscard]] std::string_view describe(link_layer layer) noexcept;

/// Path MTU: the payload of one packet.
enum class mtu : std::uint8_t {
  mtu_256 = IBV_MTU_256,
  mtu_512 = IBV_MTU_512,
  mtu_1024 = IBV_MTU_1024,
  mtu_2048 = IBV_MTU_2048,
  mtu_4096 = IBV_MTU_4096,
};
[[nodiscard]] std::string_view describe(mtu size) noexcept;
[[nodiscard]] constexpr std::size_t bytes_of(mtu size) noexcept {
  return std::size_t{128} << static_cast<unsigned>(size);
}

struct port_attributes {
  std::uint8_t number = 1;
  port_state state = port_state::nop;
  mtu max_mtu = mtu::mtu_256;
  mtu active_mtu = mtu::mtu_256;
  rdmaxx::link_layer link_layer = rdmaxx::link_layer::unspecified;
  std::uint32_t max_message_bytes = 0;
  std::uint32_t gid_table_length = 0;
  std::uint16_t pkey_table_length = 0;
  rdmaxx::lid lid{};
  rdmaxx::lid sm_lid{};
  std::uint8_t lid_mask_count = 0;
  std::uint8_t sm_service_level = 0;
  std::uint8_t subnet_timeout = 0;     ///< an exponent: 4.096 us · 2^n
  std::uint8_t max_virtual_lanes = 0;  ///< the C encoding (IBTA PortInfo:VLCap)
  std::uint8_t active_width = 0;       ///< the C encoding: 1, 2, 4, 8 for 1x, 4x, 8x, 12x
  std::uint8_t active_speed = 0;       ///< the C encoding
  std::uint8_t physical_state = 0;     ///< the C encoding
  std::uint32_t capability_mask = 0;   ///< IBV_PORT_*
  std::uint16_t capability_mask2 = 0;  ///< IBV_PORT_*_SUP of the second mask
  std::uint32_t bad_pkey_count = 0;
  std::uint32_t qkey_violation_count = 0;

  [[nodiscard]] static port_attributes from_native(std::uint8_t number,
                                                   const ibv_port_attr& native);
  /// "4x 25 Gb/s"-like text for width and speed; empty if unknown.
  [[nodiscard]] std::string link_speed() const;
};
[[nodiscard]] std::string describe(const port_attributes& port);

}  // namespace RDMAXX_NAMESPACE
