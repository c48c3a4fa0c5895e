#include <engine/port_lease.hpp>

#include <algorithm>
#include <cerrno>
#include <utility>

#include <base/log.hpp>
#include <engine/receive_steering.hpp>
#include <wire/packet.hpp>

namespace softverbs::engine {
namespace {

// Another process may hold the number on one of the addresses, or its slot; a few attempts find a
// free one.
constexpr int attempts = 64;

}  // namespace

leased_address::leased_address(std::unique_ptr<net::udp_socket> socket,
                               std::unique_ptr<handoff_socket> handoff,
                               std::unique_ptr<ring_listener> rings)
    : socket_(std::move(socket)),
      handoff_(std::move(handoff)),
      rings_(std::move(rings)),
      socket_ends_(socket_->fd()),
      handoff_end_(handoff_->fd()),
      rings_end_(rings_->fd()) {}

std::unique_ptr<leased_address> leased_address::bind(const net::address& own, std::uint16_t port,
                                                     unsigned netdev_index) {
  auto socket = net::udp_socket::bind(own, port, netdev_index);
  if (socket == nullptr) return nullptr;
  if (socket->port() < receive_steering::lowest_port) {
    errno = EADDRINUSE;
    return nullptr;
  }
  auto handoff = handoff_socket::open(own, socket->port());
  if (handoff == nullptr) return nullptr;
  auto rings = ring_listener::open(own, socket->port());
  if (rings == nullptr) return nullptr;
  return std::unique_ptr<leased_address>(
      new leased_address(std::move(socket), std::move(handoff), std::move(rings)));
}

std::unique_ptr<port_lease> port_lease::take(const std::vector<net::address>& addresses,
                                             unsigned netdev_index, slot_claim* claim) {
  if (addresses.empty()) {
    errno = EADDRNOTAVAIL;
    return nullptr;
  }
  std::unique_ptr<port_lease> shares_slot;
  for (int attempt = 0; attempt < attempts; ++attempt) {
    std::unique_ptr<port_lease> lease(new port_lease);
    if (claim != nullptr) lease->port_ = claim->next_port();
    const bool complete = std::ranges::all_of(addresses, [&](const net::address& own) {
      return lease->add_address(own, netdev_index) != nullptr;
    });
    if (complete && (claim == nullptr || claim->covers(lease->port()))) return lease;
    if (complete) {
      shares_slot = std::move(lease);
    } else if (errno != EADDRINUSE) {
      break;
    }
  }
  if (shares_slot != nullptr) {
    log(log_level::info,
        "no slot of port {} is left for UDP port {}: packets from other hosts may overtake each "
        "other",
        wire::roce_udp_port, shares_slot->port());
  }
  return shares_slot;
}

const leased_address* port_lease::add_address(const net::address& own, unsigned netdev_index) {
  auto bound = leased_address::bind(own, port_, netdev_index);
  if (bound == nullptr) return nullptr;
  port_ = bound->socket().port();
  numbers.set_port(port_);
  addresses_.push_back(std::move(bound));
  return addresses_.back().get();
}

const net::udp_socket* port_lease::socket_of(const net::address& own) const noexcept {
  for (const auto& each : addresses_) {
    if (each->socket().own_address() == own) return &each->socket();
  }
  return nullptr;
}

}  // namespace softverbs::engine
