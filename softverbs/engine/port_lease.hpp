// One UDP port of this process, bound on every address of a netdev, and the 256 queue pair numbers
// that it stands for.
//
// Owner: the port_leases of the netdev, until the last context on it is closed. Other threads look
// the addresses up while they grow: add_address() is called with the lock of the process's ports
// (process_ports.hpp) held once the lease is registered there. An address stays as long as the
// lease.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include <engine/fork_registry.hpp>
#include <engine/handoff_socket.hpp>
#include <engine/qpn_table.hpp>
#include <engine/ring_listener.hpp>
#include <engine/slot_claim.hpp>
#include <net/address.hpp>
#include <net/udp_socket.hpp>

namespace softverbs::engine {

/// What a lease has on one address. Immutable.
class leased_address {
 public:
  /// Port 0: the kernel chooses. Null with errno.
  [[nodiscard]] static std::unique_ptr<leased_address> bind(const net::address& own,
                                                            std::uint16_t port,
                                                            unsigned netdev_index);

  [[nodiscard]] const net::udp_socket& socket() const noexcept { return *socket_; }
  [[nodiscard]] const handoff_socket& handoff() const noexcept { return *handoff_; }
  [[nodiscard]] const ring_listener& rings() const noexcept { return *rings_; }

 private:
  leased_address(std::unique_ptr<net::udp_socket> socket, std::unique_ptr<handoff_socket> handoff,
                 std::unique_ptr<ring_listener> rings);

  std::unique_ptr<net::udp_socket> socket_;
  std::unique_ptr<handoff_socket> handoff_;
  std::unique_ptr<ring_listener> rings_;
  closed_in_children socket_ends_, handoff_end_, rings_end_;
};

class port_lease {
 public:
  /// Binds the same port on each of the addresses; nothing with errno if that cannot be had. With a
  /// claim, a port in its slot if there is one.
  [[nodiscard]] static std::unique_ptr<port_lease> take(const std::vector<net::address>& addresses,
                                                        unsigned netdev_index, slot_claim* claim);

  [[nodiscard]] std::uint16_t port() const noexcept { return port_; }
  [[nodiscard]] const std::vector<std::unique_ptr<leased_address>>& addresses() const noexcept {
    return addresses_;
  }
  /// Null if the port is not bound on that address.
  [[nodiscard]] const net::udp_socket* socket_of(const net::address& own) const noexcept;
  /// Binds the port on one more address; null with errno.
  [[nodiscard]] const leased_address* add_address(const net::address& own, unsigned netdev_index);

  qpn_table numbers;

 private:
  port_lease() = default;

  std::uint16_t port_ = 0;
  std::vector<std::unique_ptr<leased_address>> addresses_;
};

}  // namespace softverbs::engine
