// Notices that a netdev goes up or down, or gains or loses addresses: binds the ports on new
// addresses and tells the observers.
//
// Owner: the netdev port, which has it watched as a packet source: receive() is called with the
// receiving lock held.
#pragma once

#include <cstdint>
#include <vector>

#include <engine/fork_registry.hpp>
#include <engine/netdev_observers.hpp>
#include <engine/packet_source.hpp>
#include <engine/port_leases.hpp>
#include <net/address.hpp>
#include <net/change_watch.hpp>
#include <net/netdev.hpp>

namespace softverbs::engine {

class netdev_changes final : public packet_source {
 public:
  netdev_changes(const net::netdev& device, port_leases& ports, netdev_observers& observers);

  /// Readable when something has changed; -1 where the kernel does not tell.
  [[nodiscard]] int fd() const noexcept { return changes_.fd(); }
  /// Looks what has become of the netdev. There are never packets.
  bool receive(receive_state& state, std::uint32_t events) override;

 private:
  const net::netdev& device_;
  port_leases& ports_;
  netdev_observers& observers_;
  net::change_watch changes_;
  closed_in_children changes_end_;
  bool was_up_;
  std::vector<net::address> had_addresses_;
};

}  // namespace softverbs::engine
