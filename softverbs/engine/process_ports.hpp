// The UDP ports of this process, on whatever netdev, and the netdevs that it has open: how a queue
// pair number is turned into the queue pair of this process that holds it.
//
// Any thread may call any function. A child of a fork begins with none.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <shared_mutex>
#include <vector>

#include <base/lock_order.hpp>
#include <engine/endpoint.hpp>
#include <engine/port_lease.hpp>
#include <net/address.hpp>

namespace softverbs::engine {

class netdev_port;

class process_ports {
 public:
  [[nodiscard]] static process_ports& of_process();

  void add(const port_lease& lease);
  void remove(const port_lease& lease);
  /// Binds the port of a lease on one more address, while nobody looks it up; null with errno.
  [[nodiscard]] const leased_address* add_address(port_lease& lease, const net::address& own,
                                                  unsigned netdev_index);

  [[nodiscard]] std::shared_ptr<endpoint> find(const net::address& own, std::uint32_t qpn) const;
  [[nodiscard]] bool holds(const net::address& own, std::uint16_t port) const;

  /// What is open on the netdev of that index; `make()` makes it if nothing is.
  template <class Make>
  [[nodiscard]] std::shared_ptr<netdev_port> find_or_make(unsigned netdev_index, Make make) {
    std::shared_ptr<netdev_port> found;  // outlives the lock, which its end takes
    const std::unique_lock lock(mutex_);
    auto& known = netdevs_[netdev_index];
    found = known.lock();
    if (found == nullptr) known = found = make();
    return found;
  }
  [[nodiscard]] std::vector<std::shared_ptr<netdev_port>> netdevs() const;

 private:
  mutable ranked_shared_mutex<lock_rank::process_ports> mutex_;
  std::multimap<std::uint16_t, const port_lease*> leases_;
  std::map<unsigned, std::weak_ptr<netdev_port>> netdevs_;
};

/// The endpoint of a queue pair of this process with that address and number; null if there is
/// none.
[[nodiscard]] inline std::shared_ptr<endpoint> find_in_process(const net::address& destination,
                                                               std::uint32_t qpn) {
  return process_ports::of_process().find(destination, qpn);
}

/// Whether this process holds the port on that address.
[[nodiscard]] inline bool holds_port(const net::address& own, std::uint16_t port) {
  return process_ports::of_process().holds(own, port);
}

}  // namespace softverbs::engine
