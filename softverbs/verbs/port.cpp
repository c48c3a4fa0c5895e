#include <verbs/port.hpp>

#include <array>
#include <cstdint>

#include <base/settings.hpp>

namespace softverbs::verbs {
namespace {

ibv_mtu active_mtu(const net::netdev& netdev) {
  auto mtu = IBV_MTU_4096;
  const auto bytes = [&] { return 128U << mtu; };
  while (mtu > IBV_MTU_256 && (bytes() > settings::get().mtu || bytes() + 80 > netdev.mtu)) {
    mtu = static_cast<ibv_mtu>(mtu - 1);
  }
  return mtu;
}

/// Width and speed codes whose product comes nearest to the netdev's; 25 Gb/s where it does not
/// tell.
void set_rate(ibv_port_attr& port, unsigned mbps) {
  struct rate {
    unsigned mbps;
    std::uint8_t width;
    std::uint8_t speed;
  };
  constexpr std::array<rate, 7> rates{{{2500, 1, 1},
                                       {5000, 1, 2},
                                       {10000, 1, 4},
                                       {25000, 1, 32},
                                       {40000, 2, 4},
                                       {56000, 2, 16},
                                       {100000, 2, 32}}};
  const auto wanted = mbps == 0 ? 25000 : mbps;
  const auto* best = rates.begin();
  for (const auto& each : rates) {
    if (each.mbps <= wanted) best = &each;
  }
  port.active_width = best->width;
  port.active_speed = best->speed;
}

}  // namespace

ibv_port_attr describe_port(const net::netdev& netdev, bool up) {
  ibv_port_attr port{};
  port.state = up ? IBV_PORT_ACTIVE : IBV_PORT_DOWN;
  port.max_mtu = IBV_MTU_4096;
  port.active_mtu = active_mtu(netdev);
  port.gid_tbl_len = static_cast<int>(net::gid_table(netdev).size());
  port.port_cap_flags = IBV_PORT_CM_SUP | IBV_PORT_IP_BASED_GIDS;
  port.max_msg_sz = 1U << 31;
  port.pkey_tbl_len = 1;
  port.max_vl_num = 1;
  port.phys_state = up ? 5 : 3;  // LinkUp, Disabled
  port.link_layer = IBV_LINK_LAYER_ETHERNET;
  port.flags = IBV_QPF_GRH_REQUIRED;
  set_rate(port, netdev.speed_mbps);
  return port;
}

}  // namespace softverbs::verbs
