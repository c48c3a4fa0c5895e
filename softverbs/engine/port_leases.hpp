// The UDP ports that this process has on one netdev: its own ones, each with 256 queue pair
// numbers, and its share of UDP port 4791 on each address that is to be reached from other hosts.
//
// A process binds a port of its own on every address of the netdev and owns the numbers that belong
// to it: whoever knows a queue pair number knows where to send, with no table and no daemon.
// docs/softverbs.md tells the whole story. One more port is taken when the numbers run out; ports
// are kept until the netdev is closed.
//
// Owner: the netdev port. Any thread may call any function.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include <base/lock_order.hpp>
#include <engine/endpoint.hpp>
#include <engine/packet_receiver.hpp>
#include <engine/port_lease.hpp>
#include <engine/slot_claim.hpp>
#include <net/address.hpp>
#include <net/netdev.hpp>
#include <net/udp_socket.hpp>

namespace softverbs::engine {

class netdev_port;
class roce_port;

class port_leases {
 public:
  port_leases(netdev_port& owner, const net::netdev& device, packet_receiver& receiver);
  port_leases(const port_leases&) = delete;
  port_leases& operator=(const port_leases&) = delete;
  ~port_leases();

  /// A new queue pair number; null with errno.
  [[nodiscard]] std::shared_ptr<endpoint> allocate_endpoint();
  void release_endpoint(std::uint32_t qpn);
  /// Of all queue pairs.
  [[nodiscard]] std::vector<std::shared_ptr<endpoint>> endpoints() const;

  /// The socket through which the queue pair sends from this address; null if it has none.
  [[nodiscard]] const net::udp_socket* socket_of(std::uint32_t qpn, const net::address& own);

  /// The port by which this process is known for what is not about a queue pair; 0 with errno.
  [[nodiscard]] std::uint16_t management_port();
  /// The socket of that port; null if it has none on the address.
  [[nodiscard]] const net::udp_socket* management_socket(const net::address& own);

  /// Makes sure that packets from other hosts reach this process; 0 or an errno.
  [[nodiscard]] int open_roce_port(const net::address& own);
  /// The same for all addresses, as far as they can be had, and for those to come.
  void open_roce_ports();

  /// Binds the ports on addresses that the netdev has gained.
  void bind_new_addresses();

 private:
  /// With the lock held. Null with errno.
  [[nodiscard]] port_lease* take_lease();
  void bind(port_lease& lease, const net::address& own);

  netdev_port& owner_;
  const net::netdev& device_;
  packet_receiver& receiver_;
  mutable ranked_mutex<lock_rank::ports> mutex_;
  slot_claim slot_;
  std::vector<std::unique_ptr<port_lease>> leases_;
  std::vector<std::unique_ptr<roce_port>> roce_ports_;
  bool roce_ports_for_all_ = false;
};

}  // namespace softverbs::engine
