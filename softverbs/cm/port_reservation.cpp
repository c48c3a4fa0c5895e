#include <cm/port_reservation.hpp>

#include <algorithm>
#include <cerrno>
#include <string>
#include <string_view>

#include <base/random.hpp>
#include <engine/management.hpp>
#include <engine/netdev_port.hpp>
#include <fmt/format.h>
#include <net/netdev.hpp>
#include <unistd.h>

namespace softverbs::cm {
namespace {

using port_spec = port_reservation::port_spec;

// What the kernel gives to sockets by default.
constexpr std::uint16_t first_free_port = 32768;
constexpr std::uint16_t last_free_port = 60999;
constexpr int attempts = 1000;

// Every address of both families has a name of its own beside that of every IPv6 address.
constexpr std::string_view both_families = "both";

bool is_for_both(const port_spec& wanted) {
  return wanted.own == net::address::any(false) && !wanted.one_family_only;
}

engine::abstract_name name_of(std::string_view kind, rdma_port_space space, std::uint16_t port,
                              std::string_view where) {
  return engine::abstract_name(
      fmt::format("softverbs/{}/{:x}/{}", kind, service_id(space, port), where));
}

bool exists(const engine::abstract_name& name) {
  return static_cast<bool>(engine::handoff_socket::connect_to(name));
}

/// Held by another under a name that means a part or more of what is wanted.
bool conflicts(const port_spec& wanted, std::uint16_t port) {
  const auto is_held = [&](std::string_view where) {
    return exists(name_of("port", wanted.space, port, where));
  };
  const bool ipv4 = wanted.own.is_ipv4();
  if (!wanted.own.is_any()) {
    return is_held(net::address::any(ipv4).text()) || (ipv4 && is_held(both_families));
  }
  if (ipv4 && is_held(both_families)) return true;
  if (is_for_both(wanted) && is_held(net::address::any(true).text())) return true;
  for (const auto& device : net::usable_netdevs()) {
    for (const auto& row : net::gid_table(device)) {
      if (row.packets_carry && (row.packets_carry->is_ipv4() == ipv4 || is_for_both(wanted)) &&
          is_held(row.packets_carry->text()))
        return true;
    }
  }
  return false;
}

void close_in_children(const std::vector<std::unique_ptr<engine::handoff_socket>>& sockets) {
  for (const auto& socket : sockets) engine::close_in_children(socket->fd());
}

void forget(const std::vector<std::unique_ptr<engine::handoff_socket>>& sockets) {
  for (const auto& socket : sockets) engine::forget_descriptor(socket->fd());
}

}  // namespace

port_reservation::~port_reservation() {
  forget(names_);
  forget(sockets_);
  if (shared_name_ != nullptr) engine::forget_descriptor(shared_name_->fd());
}

bool port_reservation::is_shareable(const port_spec& wanted) {
  return exists(name_of("shared", wanted.space, wanted.port, wanted.own.text()));
}

bool port_reservation::claim(const port_spec& wanted, std::uint16_t port) {
  std::vector<std::unique_ptr<engine::handoff_socket>> names;
  const auto take_name = [&](std::string_view where) {
    names.push_back(
        engine::handoff_socket::open(name_of("port", wanted.space, port, where), wanted.own, port));
    return names.back() != nullptr;
  };
  if (!take_name(wanted.own.text())) return false;
  if (is_for_both(wanted) && !take_name(both_families)) return false;
  // Named first, then looked for others: of two who do this at once at least one sees the other.
  if (conflicts(wanted, port)) {
    errno = EADDRNOTAVAIL;
    return false;
  }
  if (wanted.shareable) {
    shared_name_ = engine::handoff_socket::open(
        name_of("shared", wanted.space, port, wanted.own.text()), wanted.own, port);
    if (shared_name_ != nullptr) engine::close_in_children(shared_name_->fd());
  }
  close_in_children(names);
  names_ = std::move(names);
  wanted_ = wanted;
  wanted_.port = port;
  return true;
}

std::unique_ptr<port_reservation> port_reservation::take(const port_spec& wanted) {
  std::unique_ptr<port_reservation> made(new port_reservation);
  if (wanted.port != 0) return made->claim(wanted, wanted.port) ? std::move(made) : nullptr;
  constexpr std::uint32_t free_ports = last_free_port - first_free_port + 1;
  for (int attempt = 0; attempt < attempts; ++attempt) {
    const auto drawn = first_free_port + random_number<std::uint32_t>() % free_ports;
    if (made->claim(wanted, static_cast<std::uint16_t>(drawn))) return made;
    if (errno != EADDRINUSE && errno != EADDRNOTAVAIL) return nullptr;
  }
  errno = EADDRINUSE;
  return nullptr;
}

bool port_reservation::open_sockets() {
  std::vector<net::address> addresses;
  if (is_for_both(wanted_)) addresses.push_back(net::address::any(true));
  addresses.push_back(wanted_.own);
  std::vector<std::unique_ptr<engine::handoff_socket>> sockets;
  for (const auto& own : addresses) {
    const auto name = engine::service_name(service_id(wanted_.space, wanted_.port), own);
    sockets.push_back(engine::handoff_socket::open(name, own, wanted_.port));
    if (sockets.back() == nullptr) return false;
  }
  if (shared_name_ != nullptr) engine::forget_descriptor(shared_name_->fd());
  shared_name_ = nullptr;
  close_in_children(sockets);
  sockets_ = std::move(sockets);
  return true;
}

}  // namespace softverbs::cm
