#include <engine/process_ports.hpp>

#include <algorithm>
#include <utility>

#include <engine/per_process.hpp>

namespace softverbs::engine {

process_ports& process_ports::of_process() {
  static per_process<process_ports> all;
  return all.get();
}

void process_ports::add(const port_lease& lease) {
  const std::unique_lock lock(mutex_);
  leases_.emplace(lease.port(), &lease);
}

void process_ports::remove(const port_lease& lease) {
  const std::unique_lock lock(mutex_);
  std::erase_if(leases_, [&](const auto& each) { return each.second == &lease; });
}

const leased_address* process_ports::add_address(port_lease& lease, const net::address& own,
                                                 unsigned netdev_index) {
  const std::unique_lock lock(mutex_);
  return lease.add_address(own, netdev_index);
}

std::shared_ptr<endpoint> process_ports::find(const net::address& own, std::uint32_t qpn) const {
  const std::shared_lock lock(mutex_);
  const auto [first, last] = leases_.equal_range(static_cast<std::uint16_t>(qpn >> 8));
  for (auto each = first; each != last; ++each) {
    if (each->second->socket_of(own) != nullptr) return each->second->numbers.find(qpn);
  }
  return nullptr;
}

bool process_ports::holds(const net::address& own, std::uint16_t port) const {
  const std::shared_lock lock(mutex_);
  const auto [first, last] = leases_.equal_range(port);
  return std::any_of(first, last,
                     [&](const auto& each) { return each.second->socket_of(own) != nullptr; });
}

std::vector<std::shared_ptr<netdev_port>> process_ports::netdevs() const {
  const std::shared_lock lock(mutex_);
  std::vector<std::shared_ptr<netdev_port>> open;
  for (const auto& [index, known] : netdevs_) {
    if (auto found = known.lock()) open.push_back(std::move(found));
  }
  return open;
}

}  // namespace softverbs::engine
