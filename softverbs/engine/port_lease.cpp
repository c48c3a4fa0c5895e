#include <algorithm>
#include <cerrno>
#include <utility>

#include <engine/station.hpp>

namespace softverbs::engine {
namespace {

// Another process may hold the number on one of the addresses; a few attempts find a free one.
constexpr int attempts = 64;
// Queue pair numbers below this port belong to other kinds of RoCE devices, which count from 0.
constexpr std::uint16_t lowest_port = 1024;

}  // namespace

std::unique_ptr<port_lease> port_lease::take(const std::vector<net::address>& addresses,
                                             unsigned netdev_index) {
  if (addresses.empty()) {
    errno = EADDRNOTAVAIL;
    return nullptr;
  }
  for (int attempt = 0; attempt < attempts; ++attempt) {
    std::unique_ptr<port_lease> lease(new port_lease);
    const bool complete = std::ranges::all_of(
        addresses, [&](const net::address& own) { return lease->add_address(own, netdev_index); });
    if (complete) return lease;
    if (errno != EADDRINUSE) return nullptr;
  }
  errno = EADDRINUSE;
  return nullptr;
}

bool port_lease::add_address(const net::address& own, unsigned netdev_index) {
  auto socket = net::udp_socket::bind(own, port_, netdev_index);
  if (socket == nullptr) return false;
  if (socket->port() < lowest_port) {
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
