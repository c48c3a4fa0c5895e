#include <algorithm>
#include <cerrno>
#include <utility>

#include <base/log.hpp>
#include <engine/receive_steering.hpp>
#include <engine/slot_claim.hpp>
#include <engine/station.hpp>
#include <wire/icrc.hpp>

namespace softverbs::engine {
namespace {

// Another process may hold the number on one of the addresses, or its slot; a few attempts find a
// free one.
constexpr int attempts = 64;

}  // namespace

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
    const bool complete = std::ranges::all_of(
        addresses, [&](const net::address& own) { return lease->add_address(own, netdev_index); });
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

bool port_lease::add_address(const net::address& own, unsigned netdev_index) {
  auto socket = net::udp_socket::bind(own, port_, netdev_index);
  if (socket == nullptr) return false;
  if (socket->port() < receive_steering::lowest_port) {
    errno = EADDRINUSE;
    return false;
  }
  auto letters = mailbox::open(own, socket->port());
  if (letters == nullptr) return false;
  auto rings = ring_listener::open(own, socket->port());
  if (rings == nullptr) return false;
  port_ = socket->port();
  sockets_.push_back(std::move(socket));
  mailboxes_.push_back(std::move(letters));
  ring_listeners_.push_back(std::move(rings));
  return true;
}

const net::udp_socket* port_lease::socket_of(const net::address& own) const noexcept {
  for (const auto& socket : sockets_) {
    if (socket->own_address() == own) return socket.get();
  }
  return nullptr;
}

const mailbox* port_lease::mailbox_of(const net::address& own) const noexcept {
  for (const auto& each : mailboxes_) {
    if (each->own_address() == own) return each.get();
  }
  return nullptr;
}

std::shared_ptr<endpoint> port_lease::allocate() {
  const std::lock_guard lock(mutex_);
  if (taken_ == numbers) return nullptr;
  while (endpoints_[next_ % numbers] != nullptr) ++next_;
  const auto index = next_++ % numbers;
  ++taken_;
  endpoints_[index] = std::make_shared<endpoint>(std::uint32_t{port_} << 8 | index);
  return endpoints_[index];
}

void port_lease::release(std::uint32_t qpn) {
  const std::lock_guard lock(mutex_);
  endpoints_[qpn % numbers] = nullptr;
  --taken_;
}

std::shared_ptr<endpoint> port_lease::find(std::uint32_t qpn) const {
  if (qpn >> 8 != port_) return nullptr;
  const std::lock_guard lock(mutex_);
  return endpoints_[qpn % numbers];
}

std::vector<std::shared_ptr<endpoint>> port_lease::all() const {
  const std::lock_guard lock(mutex_);
  std::vector<std::shared_ptr<endpoint>> found;
  for (const auto& each : endpoints_) {
    if (each != nullptr) found.push_back(each);
  }
  return found;
}

}  // namespace softverbs::engine
