// The network interfaces of this host that can carry a soft device, and the GIDs they give to it.
//
// Functions here ask the kernel anew at every call and may be called from any thread.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <net/address.hpp>

namespace softverbs::net {

struct netdev {
  unsigned index = 0;
  std::string name;
  std::array<std::uint8_t, 6> mac{};
  unsigned mtu = 0;
  bool loopback = false;
  bool up = false;          ///< administratively up and with carrier
  unsigned speed_mbps = 0;  ///< 0 if the driver does not tell
};

/// A row of the device's GID table. The first row is the link-local address that follows from the
/// MAC, whether or not the interface has it (as with the kernel's rxe); then the interface's own.
struct gid_row {
  address gid;
  /// What packets really carry: differs from `gid` in row 0 alone, where the interface may lack the
  /// address. On the loopback it is ::1. Nothing: the row cannot be used.
  std::optional<address> packets_carry;
};

/// The loopback first, then the others by index. Interfaces without any IP address, that are down,
/// or that cannot carry UDP are left out. The setting `netdevs` (SOFTVERBS_NETDEVS, names separated
/// by commas) limits the choice.
[[nodiscard]] std::vector<netdev> usable_netdevs();
/// The interface as it is now; nothing if it has gone.
[[nodiscard]] std::optional<netdev> netdev_by_index(unsigned index);
[[nodiscard]] std::vector<gid_row> gid_table(const netdev& device);

/// "soft0" for the loopback, "soft_<netdev>" for the others.
[[nodiscard]] std::string device_name(const netdev& device);

/// Whether the address belongs to any interface of this host (of this network namespace).
[[nodiscard]] bool is_local(const address& address);

}  // namespace softverbs::net
