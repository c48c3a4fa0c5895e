// The soft devices as the connection manager sees them: opened once, for the rest of the process,
// with a protection domain for those who bring none.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include <engine/netdev_port.hpp>
#include <infiniband/verbs.h>
#include <net/address.hpp>
#include <net/netdev.hpp>

namespace softverbs::cm {

struct local_device {
  ibv_context* verbs = nullptr;
  ibv_pd* pd = nullptr;
  ibv_xrcd* xrc_domain = nullptr;  ///< what all connections of the process share
  engine::netdev_port* place = nullptr;
  ibv_device_attr attributes{};

  /// The row of the GID table that packets from the address are sent with; nothing if it has none.
  [[nodiscard]] std::optional<std::uint8_t> gid_index_of(const net::address& own) const;
  [[nodiscard]] ibv_mtu mtu() const;
};

/// All of them; empty with errno.
[[nodiscard]] std::vector<local_device*> local_devices();
/// The one whose interface has the address; null if there is none.
[[nodiscard]] local_device* device_with(const net::address& own);
/// The address from which the host reaches another; nothing with errno.
[[nodiscard]] std::optional<net::address> source_towards(const net::address& destination,
                                                         unsigned scope);

}  // namespace softverbs::cm
