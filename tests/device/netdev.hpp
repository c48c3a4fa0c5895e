#pragma once

// netdev: the network interface under a device, and its addresses.

#include <optional>
#include <string>

#include <netinet/in.h>

#include <rdmaxx/rdmaxx.hpp>

namespace rdmaxx::device_tests {

struct netdev {
  std::string name{};
  std::optional<in_addr> ipv4{};
  std::optional<in6_addr> ipv6{};  ///< a global one
};

/// The interface under the device's first port; nothing on InfiniBand.
[[nodiscard]] std::optional<netdev> netdev_of(const context& ctx);

/// Brings the interface up or takes it down; its addresses survive. Needs the rights of root.
void set_link(const std::string& name, bool up);

[[nodiscard]] std::string text_of(const in_addr& address);
[[nodiscard]] std::string text_of(const in6_addr& address);

}  // namespace rdmaxx::device_tests
