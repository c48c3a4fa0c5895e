#include <net/netdev.hpp>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <memory>
#include <string_view>
#include <tuple>

#include <base/descriptor.hpp>
#include <base/log.hpp>
#include <base/settings.hpp>
#include <ifaddrs.h>
#include <linux/ethtool.h>
#include <linux/if_packet.h>
#include <linux/sockios.h>
#include <net/if.h>
#include <sys/ioctl.h>
#include <unistd.h>

namespace softverbs::net {

namespace {

/// Everything the kernel tells about the interfaces at one moment.
class interface_list {
 public:
  struct interface_address {
    std::string_view netdev;
    address value;
  };

  interface_list() {
    ifaddrs* first = nullptr;
    if (::getifaddrs(&first) != 0) return;
    entries_.reset(first);
    for (const auto* entry = first; entry != nullptr; entry = entry->ifa_next) {
      if (entry->ifa_addr == nullptr) continue;
      if (entry->ifa_addr->sa_family == AF_PACKET) {
        links_.push_back(entry);
      } else if (entry->ifa_addr->sa_family == AF_INET || entry->ifa_addr->sa_family == AF_INET6) {
        // An IPv4 address may have a label of its own: eth0:1.
        const std::string_view label(entry->ifa_name);
        addresses_.push_back(
            {label.substr(0, label.find(':')), address::from_sockaddr(entry->ifa_addr)});
      }
    }
  }

  [[nodiscard]] const std::vector<const ifaddrs*>& links() const { return links_; }
  [[nodiscard]] const std::vector<interface_address>& addresses() const { return addresses_; }

  [[nodiscard]] bool has_address(std::string_view netdev) const {
    return std::ranges::find(addresses_, netdev, &interface_address::netdev) != addresses_.end();
  }

 private:
  struct freeing {
    void operator()(ifaddrs* list) const { ::freeifaddrs(list); }
  };
  std::unique_ptr<ifaddrs, freeing> entries_;
  std::vector<const ifaddrs*> links_;
  std::vector<interface_address> addresses_;
};

/// Asks about an interface by its name.
class interface_question {
 public:
  explicit interface_question(const std::string& name)
      : socket_(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0)) {
    name.copy(static_cast<char*>(request_.ifr_name), IFNAMSIZ - 1);
  }

  [[nodiscard]] unsigned mtu() {
    return ::ioctl(socket_.get(), SIOCGIFMTU, &request_) == 0
               ? static_cast<unsigned>(request_.ifr_mtu)
               : 0;
  }

  // Not from sysfs, which may show the interfaces of another network namespace.
  [[nodiscard]] unsigned speed_mbps() {
    ethtool_cmd command{};
    command.cmd = ETHTOOL_GSET;
    request_.ifr_data = reinterpret_cast<char*>(&command);
    if (::ioctl(socket_.get(), SIOCETHTOOL, &request_) != 0) return 0;
    const auto speed = ethtool_cmd_speed(&command);
    return speed == static_cast<unsigned>(SPEED_UNKNOWN) ? 0 : speed;
  }

 private:
  descriptor socket_;
  ifreq request_{};
};

netdev describe(const ifaddrs* link) {
  sockaddr_ll hardware{};
  std::memcpy(&hardware, link->ifa_addr, sizeof hardware);

  netdev device;
  device.index = static_cast<unsigned>(hardware.sll_ifindex);
  device.name = link->ifa_name;
  if (hardware.sll_halen == device.mac.size()) {
    std::memcpy(device.mac.data(), &hardware.sll_addr[0], device.mac.size());
  }
  device.loopback = (link->ifa_flags & IFF_LOOPBACK) != 0;
  device.up = (link->ifa_flags & IFF_UP) != 0 && (link->ifa_flags & IFF_RUNNING) != 0;
  interface_question question(device.name);
  device.mtu = question.mtu();
  device.speed_mbps = question.speed_mbps();
  return device;
}

bool is_wanted(std::string_view name) {
  const auto& wanted = settings::get().netdevs;
  return wanted.empty() || std::ranges::find(wanted, name) != wanted.end();
}

/// Of an interface that SOFTVERBS_NETDEVS names. Once: interfaces are listed often.
void warn_of_missing(const std::vector<netdev>& found) {
  static std::atomic<bool> has_warned = false;
  for (const auto& name : settings::get().netdevs) {
    if (std::ranges::find(found, name, &netdev::name) == found.end() && !has_warned.exchange(true))
      log(log_level::warning, "SOFTVERBS_NETDEVS: {} is no interface that is up and has an address",
          name);
  }
}

/// fe80::/64 and the modified EUI-64 of the MAC (RFC 4291, appendix A).
address link_local_of(const std::array<std::uint8_t, 6>& mac) {
  address result;
  result.raw = {
      0xfe,   0x80,   0,    0,    0,      0,      0,     0, static_cast<std::uint8_t>(mac[0] ^ 2),
      mac[1], mac[2], 0xff, 0xfe, mac[3], mac[4], mac[5]};
  return result;
}

}  // namespace

std::vector<netdev> usable_netdevs() {
  const interface_list interfaces;
  std::vector<netdev> found;
  for (const auto* link : interfaces.links()) {
    if ((link->ifa_flags & IFF_UP) == 0 || !is_wanted(link->ifa_name)) continue;
    if (interfaces.has_address(link->ifa_name)) found.push_back(describe(link));
  }
  warn_of_missing(found);
  std::ranges::sort(
      found, {}, [](const netdev& device) { return std::tuple(!device.loopback, device.index); });
  return found;
}

std::optional<netdev> netdev_by_index(unsigned index) {
  const interface_list interfaces;
  for (const auto* link : interfaces.links()) {
    auto device = describe(link);
    if (device.index == index) return device;
  }
  return {};
}

std::vector<gid_row> gid_table(const netdev& device) {
  const interface_list interfaces;
  std::vector<address> own;
  for (const auto& one : interfaces.addresses()) {
    if (one.netdev == device.name && std::ranges::find(own, one.value) == own.end()) {
      own.push_back(one.value);
    }
  }
  const auto has = [&](const address& wanted) {
    return std::ranges::find(own, wanted) != own.end();
  };

  gid_row first{link_local_of(device.mac), {}};
  for (const auto& carried : {first.gid, address::loopback(false)}) {
    if (!first.packets_carry && has(carried)) first.packets_carry = carried;
  }

  std::vector<gid_row> table{first};
  for (const bool ipv4 : {true, false}) {
    for (const auto& one : own) {
      if (one.is_ipv4() == ipv4 && one != first.gid) table.push_back({one, one});
    }
  }
  return table;
}

std::string device_name(const netdev& device) {
  return device.loopback ? "soft0" : "soft_" + device.name;
}

bool is_local(const address& address) {
  if (address.is_loopback()) return true;  // all of 127.0.0.0/8
  const interface_list interfaces;
  const auto& all = interfaces.addresses();
  return std::ranges::find(all, address, &interface_list::interface_address::value) != all.end();
}

}  // namespace softverbs::net
