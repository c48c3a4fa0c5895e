#include "netdev.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <memory>
#include <system_error>

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <linux/if_packet.h>
#include <net/if.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

namespace rdmaxx::device_tests {

namespace {

constexpr std::size_t mac_bytes = 6;

using interface_list = std::unique_ptr<ifaddrs, void (*)(ifaddrs*)>;

interface_list interfaces() {
  ifaddrs* list = nullptr;
  if (::getifaddrs(&list) != 0)
    throw std::system_error(errno, std::generic_category(), "getifaddrs");
  return {list, ::freeifaddrs};
}

/// The GID table names the netdev on RoCE; the GID of an iWARP port is the netdev's MAC.
std::string name_of_netdev(const context& ctx, const ifaddrs* list) {
  const auto table = ctx.query_gid_table().value();
  for (const auto& entry : table) {
    if (!entry.netdev.empty()) return entry.netdev;
  }
  if (table.empty()) return {};
  const auto& gid = table.front().address.raw();
  for (const auto* one = list; one != nullptr; one = one->ifa_next) {
    if (one->ifa_addr == nullptr || one->ifa_addr->sa_family != AF_PACKET) continue;
    sockaddr_ll link{};
    std::memcpy(&link, one->ifa_addr, sizeof link);
    if (std::equal(gid.begin(), gid.begin() + mac_bytes, link.sll_addr)) return one->ifa_name;
  }
  return {};
}

}  // namespace

std::optional<netdev> netdev_of(const context& ctx) {
  const auto list = interfaces();
  netdev found{.name = name_of_netdev(ctx, list.get())};
  if (found.name.empty()) return std::nullopt;
  for (const auto* one = list.get(); one != nullptr; one = one->ifa_next) {
    if (one->ifa_addr == nullptr || found.name != one->ifa_name) continue;
    if (one->ifa_addr->sa_family == AF_INET) {
      sockaddr_in address{};
      std::memcpy(&address, one->ifa_addr, sizeof address);
      found.ipv4 = address.sin_addr;
    } else if (one->ifa_addr->sa_family == AF_INET6) {
      sockaddr_in6 address{};
      std::memcpy(&address, one->ifa_addr, sizeof address);
      if (!IN6_IS_ADDR_LINKLOCAL(&address.sin6_addr)) found.ipv6 = address.sin6_addr;
    }
  }
  return found;
}

void set_link(const std::string& name, bool up) {
  // Else IPv6 addresses are lost when the interface goes down.
  std::ofstream("/proc/sys/net/ipv6/conf/" + name + "/keep_addr_on_down") << 1;
  const int fd = ::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  if (fd < 0) throw std::system_error(errno, std::generic_category(), "socket");
  const std::unique_ptr<const int, void (*)(const int*)> closer(
      &fd, [](const int* open) { ::close(*open); });
  ifreq request{};
  name.copy(request.ifr_name, sizeof request.ifr_name - 1);
  if (::ioctl(fd, SIOCGIFFLAGS, &request) != 0)
    throw std::system_error(errno, std::generic_category(), "SIOCGIFFLAGS");
  const unsigned flags = static_cast<unsigned short>(request.ifr_flags);
  request.ifr_flags =
      static_cast<short>(up ? flags | IFF_UP : flags & ~static_cast<unsigned>(IFF_UP));
  if (::ioctl(fd, SIOCSIFFLAGS, &request) != 0)
    throw std::system_error(errno, std::generic_category(), "SIOCSIFFLAGS");
}

std::string text_of(const in_addr& address) {
  std::array<char, INET_ADDRSTRLEN> text{};
  return ::inet_ntop(AF_INET, &address, text.data(), text.size());
}

std::string text_of(const in6_addr& address) {
  std::array<char, INET6_ADDRSTRLEN> text{};
  return ::inet_ntop(AF_INET6, &address, text.data(), text.size());
}

}  // namespace rdmaxx::device_tests
