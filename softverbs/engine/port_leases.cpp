#include <engine/port_leases.hpp>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <iterator>
#include <utility>

#include <base/log.hpp>
#include <engine/own_addresses.hpp>
#include <engine/process_ports.hpp>
#include <engine/roce_port.hpp>

namespace softverbs::engine {

port_leases::port_leases(netdev_port& owner, const net::netdev& device, packet_receiver& receiver)
    : owner_(owner), device_(device), receiver_(receiver), slot_(device.index) {}

port_leases::~port_leases() {
  for (const auto& lease : leases_) process_ports::of_process().remove(*lease);
}

std::shared_ptr<endpoint> port_leases::allocate_endpoint() {
  const std::lock_guard lock(mutex_);
  for (const auto& lease : leases_) {
    if (auto found = lease->numbers.allocate()) return found;
  }
  auto* const lease = take_lease();
  return lease != nullptr ? lease->numbers.allocate() : nullptr;
}

void port_leases::release_endpoint(std::uint32_t qpn) {
  const std::lock_guard lock(mutex_);
  for (const auto& lease : leases_) {
    if (lease->port() == qpn >> 8) lease->numbers.release(qpn);
  }
}

std::vector<std::shared_ptr<endpoint>> port_leases::endpoints() const {
  std::vector<std::shared_ptr<endpoint>> all;
  const std::lock_guard lock(mutex_);
  for (const auto& lease : leases_)
    std::ranges::copy(lease->numbers.all(), std::back_inserter(all));
  return all;
}

std::uint16_t port_leases::management_port() {
  const std::lock_guard lock(mutex_);
  const auto* const lease = leases_.empty() ? take_lease() : leases_.front().get();
  return lease != nullptr ? lease->port() : std::uint16_t{0};
}

const net::udp_socket* port_leases::management_socket(const net::address& own) {
  const auto port = management_port();
  return port != 0 ? socket_of(std::uint32_t{port} << 8, own) : nullptr;
}

port_lease* port_leases::take_lease() {
  // No packets come to the loopback from other hosts.
  auto lease =
      port_lease::take(own_addresses(device_), device_.index, device_.loopback ? nullptr : &slot_);
  const auto is_served = [&](const auto& port) {
    return port->failure() != 0 || port->serve(lease->port());
  };
  if (lease == nullptr || !std::ranges::all_of(roce_ports_, is_served)) {
    const int failure = errno;
    log(log_level::error, "no UDP port could be had on {}: {}", device_.name,
        std::strerror(failure));
    errno = failure;
    return nullptr;
  }
  process_ports::of_process().add(*lease);
  for (const auto& each : lease->addresses()) receiver_.watch(*each);
  leases_.push_back(std::move(lease));
  return leases_.back().get();
}

const net::udp_socket* port_leases::socket_of(std::uint32_t qpn, const net::address& own) {
  const std::lock_guard lock(mutex_);
  for (const auto& lease : leases_) {
    if (lease->port() != qpn >> 8) continue;
    // The address may be so new that nobody has told us of it yet.
    if (lease->socket_of(own) == nullptr) bind(*lease, own);
    return lease->socket_of(own);
  }
  return nullptr;
}

void port_leases::bind(port_lease& lease, const net::address& own) {
  const auto* const bound = process_ports::of_process().add_address(lease, own, device_.index);
  if (bound == nullptr) {
    log(log_level::warning, "UDP port {} of the new address {} is not to be had: {}", lease.port(),
        own.text(), std::strerror(errno));
    return;
  }
  receiver_.watch(*bound);
}

void port_leases::bind_new_addresses() {
  const auto addresses = own_addresses(device_);
  bool for_all = false;
  {
    const std::lock_guard lock(mutex_);
    for_all = roce_ports_for_all_;
    for (const auto& lease : leases_) {
      for (const auto& own : addresses) {
        if (lease->socket_of(own) == nullptr) bind(*lease, own);
      }
    }
  }
  if (for_all) open_roce_ports();
}

int port_leases::open_roce_port(const net::address& own) {
  const std::lock_guard lock(mutex_);
  for (const auto& port : roce_ports_) {
    if (port->own_address() == own) return port->failure();
  }
  std::vector<std::uint16_t> ports;
  ports.reserve(leases_.size());
  for (const auto& lease : leases_) ports.push_back(lease->port());
  roce_ports_.push_back(std::make_unique<roce_port>(owner_, receiver_.sources(), own, ports));
  return roce_ports_.back()->failure();
}

void port_leases::open_roce_ports() {
  if (device_.loopback) return;
  {
    const std::lock_guard lock(mutex_);
    roce_ports_for_all_ = true;
  }
  for (const auto& own : own_addresses(device_)) {
    [[maybe_unused]] const int logged = open_roce_port(own);
  }
}

}  // namespace softverbs::engine
