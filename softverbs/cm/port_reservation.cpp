#include <cm/port_reservation.hpp>

#include <algorithm>
#include <cerrno>
#include <random>

#include <engine/management.hpp>
#include <engine/station.hpp>
#include <net/netdev.hpp>
#include <unistd.h>

namespace softverbs::cm {
namespace {

// What the kernel gives to sockets by default.
constexpr std::uint16_t first_free_port = 32768;
constexpr std::uint16_t last_free_port = 60999;
constexpr int attempts = 1000;

bool is_every(const net::address& own) {
  return own == engine::every_address(true) || own == engine::every_address(false);
}

bool somebody_holds(std::uint64_t service, const net::address& own) {
  const int fd = engine::mailbox::connect_to(engine::service_name(service, own));
  if (fd >= 0) ::close(fd);
  return fd >= 0;
}

/// Held by another, whether or not it has the same name.
bool conflicts(std::uint64_t service, const net::address& own) {
  if (!is_every(own)) return somebody_holds(service, engine::every_address(own.is_ipv4()));
  for (const auto& device : net::usable_netdevs()) {
    for (const auto& row : net::gid_table(device)) {
      if (row.packets_carry && row.packets_carry->is_ipv4() == own.is_ipv4() &&
          somebody_holds(service, *row.packets_carry))
        return true;
    }
  }
  return false;
}

}  // namespace

port_reservation::~port_reservation() {
  for (const auto& box : boxes_) engine::forget_descriptor(box->fd());
}

bool port_reservation::claim(const wish& wanted, std::uint16_t port) {
  const auto service = service_id(wanted.space, port);
  std::vector<net::address> names{wanted.own};
  if (wanted.own == engine::every_address(false) && !wanted.one_family_only)
    names.push_back(engine::every_address(true));
  std::vector<std::unique_ptr<engine::mailbox>> boxes;
  for (const auto& own : names) {
    // Bound first, then looked for others: of two who do this at once at least one sees the other.
    auto box = engine::mailbox::open(engine::service_name(service, own), own, port);
    if (box == nullptr) return false;
    if (conflicts(service, own)) {
      errno = EADDRINUSE;
      return false;
    }
    boxes.push_back(std::move(box));
  }
  for (const auto& box : boxes) engine::close_in_children(box->fd());
  boxes_ = std::move(boxes);
  port_ = port;
  return true;
}

std::unique_ptr<port_reservation> port_reservation::take(const wish& wanted) {
  std::unique_ptr<port_reservation> made(new port_reservation);
  if (wanted.port != 0) return made->claim(wanted, wanted.port) ? std::move(made) : nullptr;
  static thread_local std::minstd_rand random(std::random_device{}());
  std::uniform_int_distribution<std::uint16_t> free(first_free_port, last_free_port);
  for (int attempt = 0; attempt < attempts; ++attempt) {
    if (made->claim(wanted, free(random))) return made;
    if (errno != EADDRINUSE) return nullptr;
  }
  errno = EADDRINUSE;
  return nullptr;
}

}  // namespace softverbs::cm
