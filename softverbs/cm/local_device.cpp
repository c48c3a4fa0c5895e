#include <cm/local_device.hpp>

#include <algorithm>
#include <cerrno>
#include <map>
#include <mutex>
#include <string>

#include <base/descriptor.hpp>
#include <engine/device_context.hpp>
#include <engine/per_process.hpp>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>
#include <verbs/soft_verbs.hpp>

namespace softverbs::cm {
namespace {

struct opened_devices {
  std::mutex mutex;
  std::map<std::string, std::unique_ptr<local_device>> by_name;
};

opened_devices& opened() {
  static engine::per_process<opened_devices> all;
  return all.get();
}

std::unique_ptr<local_device> open(ibv_device* device) {
  auto made = std::make_unique<local_device>();
  made->verbs = verbs::open_device(device);
  if (made->verbs == nullptr) return nullptr;
  made->pd = verbs::alloc_pd(made->verbs);
  ibv_xrcd_init_attr unshared{};
  unshared.comp_mask = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS;
  unshared.fd = -1;
  made->xrc_domain = ibv_open_xrcd(made->verbs, &unshared);
  made->place = engine::device_context::of(made->verbs).place.get();
  if (made->pd != nullptr && made->xrc_domain != nullptr &&
      verbs::query_device(made->verbs, &made->attributes) == 0)
    return made;
  if (made->xrc_domain != nullptr) ibv_close_xrcd(made->xrc_domain);
  if (made->pd != nullptr) verbs::dealloc_pd(made->pd);
  verbs::close_device(made->verbs);
  return nullptr;
}

}  // namespace

std::vector<local_device*> local_devices() {
  auto& all = opened();
  const std::lock_guard lock(all.mutex);
  std::vector<local_device*> found;
  for (auto* const device : verbs::list_devices()) {
    auto& known = all.by_name[device->name];
    if (known == nullptr) known = open(device);
    if (known != nullptr) found.push_back(known.get());
  }
  if (found.empty()) errno = ENODEV;
  return found;
}

local_device* device_with(const net::address& own) {
  for (auto* const device : local_devices()) {
    if (device->gid_index_of(own)) return device;
  }
  return nullptr;
}

std::optional<std::uint8_t> local_device::gid_index_of(const net::address& own) const {
  const auto rows = net::gid_table(place->device());
  // The row whose own GID it is, before one that only lends the address.
  auto found = std::ranges::find(rows, own, &net::gid_row::gid);
  if (found == rows.end() || !found->packets_carry) {
    found = std::ranges::find_if(rows, [&](const auto& row) { return row.packets_carry == own; });
  }
  if (found == rows.end()) return std::nullopt;
  return static_cast<std::uint8_t>(found - rows.begin());
}

ibv_mtu local_device::mtu() const {
  ibv_port_attr port{};
  return verbs::query_port(verbs, 1, &port) == 0 ? port.active_mtu : IBV_MTU_1024;
}

std::optional<net::address> source_towards(const net::address& destination, unsigned scope) {
  sockaddr_storage name{};
  socklen_t bytes = destination.to_sockaddr(1, scope, name);
  const descriptor fd(::socket(name.ss_family, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  if (!fd) return std::nullopt;
  if (::connect(fd.get(), reinterpret_cast<const sockaddr*>(&name), bytes) != 0)
    return std::nullopt;
  bytes = sizeof name;
  if (::getsockname(fd.get(), reinterpret_cast<sockaddr*>(&name), &bytes) != 0) return std::nullopt;
  return net::address::from_sockaddr(reinterpret_cast<const sockaddr*>(&name));
}

}  // namespace softverbs::cm
