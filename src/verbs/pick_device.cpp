#include <rdmaxx/verbs/pick_device.hpp>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>
#include <tuple>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <ifaddrs.h>
#include <linux/if_packet.h>
#include <net/if.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <rdmaxx/core/check.hpp>

#include "core/descriptor.hpp"

namespace RDMAXX_NAMESPACE {

namespace {

constexpr std::size_t mac_bytes = 6;

/// What the kernel's routing table says about an address.
struct route {
  gid source{};
  std::string netdev{};
  std::uint32_t netdev_index = 0;
  std::array<std::uint8_t, mac_bytes> mac{};
};

gid gid_of(const sockaddr& address) {
  std::array<std::uint8_t, 16> raw{};
  if (address.sa_family == AF_INET) {
    raw[10] = raw[11] = 0xff;
    std::memcpy(&raw[12], &reinterpret_cast<const sockaddr_in&>(address).sin_addr, 4);
  } else {
    std::memcpy(raw.data(), &reinterpret_cast<const sockaddr_in6&>(address).sin6_addr, 16);
  }
  return gid(raw);
}

/// The address the kernel would send from. Connecting a UDP socket looks up the route and sends
/// nothing.
result<gid> source_towards(const gid& destination) {
  constexpr std::uint16_t any_port = 4791;
  const bool ipv4 = destination.is_ipv4_mapped();
  sockaddr_storage target{};
  socklen_t length = 0;
  if (ipv4) {
    auto& v4 = reinterpret_cast<sockaddr_in&>(target);
    v4.sin_family = AF_INET;
    v4.sin_port = htons(any_port);
    std::memcpy(&v4.sin_addr, &destination.raw()[12], 4);
    length = sizeof v4;
  } else {
    auto& v6 = reinterpret_cast<sockaddr_in6&>(target);
    v6.sin6_family = AF_INET6;
    v6.sin6_port = htons(any_port);
    std::memcpy(&v6.sin6_addr, destination.raw().data(), 16);
    length = sizeof v6;
  }
  const detail::descriptor fd(::socket(ipv4 ? AF_INET : AF_INET6, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  if (!fd) return errno_error("socket", errno);
  if (::connect(fd.get(), reinterpret_cast<sockaddr*>(&target), length) != 0) {
    return errno_error("pick_device", errno, fmt::format("no route to {}", describe(destination)));
  }
  sockaddr_storage source{};
  length = sizeof source;
  RDMAXX_TRY(
      check(::getsockname(fd.get(), reinterpret_cast<sockaddr*>(&source), &length), "getsockname"));
  return gid_of(reinterpret_cast<sockaddr&>(source));
}

result<route> route_towards(std::string_view text) {
  RDMAXX_TRY(const auto destination, gid::parse(text));
  route way;
  RDMAXX_TRY(way.source, source_towards(destination));
  ifaddrs* raw = nullptr;
  RDMAXX_TRY(check(::getifaddrs(&raw), "getifaddrs"));
  const std::unique_ptr<ifaddrs, void (*)(ifaddrs*)> list(raw, ::freeifaddrs);
  for (const auto* entry = list.get(); entry != nullptr; entry = entry->ifa_next) {
    if (entry->ifa_addr == nullptr) continue;
    const auto family = entry->ifa_addr->sa_family;
    if ((family == AF_INET || family == AF_INET6) && gid_of(*entry->ifa_addr) == way.source)
      way.netdev = entry->ifa_name;
  }
  way.netdev_index = if_nametoindex(way.netdev.c_str());
  for (const auto* entry = list.get(); entry != nullptr; entry = entry->ifa_next) {
    if (entry->ifa_addr == nullptr || entry->ifa_addr->sa_family != AF_PACKET ||
        way.netdev != entry->ifa_name)
      continue;
    std::memcpy(way.mac.data(), reinterpret_cast<const sockaddr_ll*>(entry->ifa_addr)->sll_addr,
                mac_bytes);
  }
  return way;
}

/// True if the GID table row belongs to the netdev of the route.
bool lies_on(const gid_entry& entry, const route& way, transport_type transport) {
  if (entry.address == way.source) return true;
  if (way.netdev_index != 0 && entry.netdev_index == way.netdev_index) return true;
  // The GID of an iWARP port is its netdev's MAC.
  return transport == transport_type::iwarp &&
         std::equal(way.mac.begin(), way.mac.end(), entry.address.raw().begin());
}

/// How well a GID serves as a source; compares greater when better.
auto merit(const gid_entry& entry, const std::optional<gid>& peer) {
  const bool want_ipv4 = !peer || peer->is_ipv4_mapped();
  const bool want_link_local = peer && peer->is_link_local();
  return std::tuple(entry.type != gid_type::roce_v1,
                    entry.address.is_link_local() == want_link_local,
                    entry.address.is_ipv4_mapped() == want_ipv4, entry.type == gid_type::roce_v2);
}

struct criteria {
  const device_query& query;
  std::optional<rdmaxx::subnet> subnet{};
  std::optional<route> way{};
  std::optional<gid> peer{};
};

struct candidate {
  context ctx;
  gid_entry entry;
  bool active;
};

/// The rows of a device's GID table that meet the criteria, or why none does.
result<std::vector<candidate>> candidates_of(const device& dev, const criteria& wanted) {
  const auto& query = wanted.query;
  const auto refuse = [](std::string why) { return misuse_error("pick_device", std::move(why)); };
  if (!query.name.empty() && dev.name() != query.name) return refuse("has another name");
  if (query.guid && dev.guid() != *query.guid) return refuse("has another GUID");
  if (query.transport && dev.transport() != *query.transport) {
    return refuse(fmt::format("is an {} device", describe(dev.transport())));
  }
  RDMAXX_TRY(const auto ctx, dev.open());
  RDMAXX_TRY(const auto ports, ctx.query_ports());
  if (query.port && *query.port > ports.size())
    return refuse(fmt::format("has no port {}", *query.port));
  RDMAXX_TRY(const auto table, ctx.query_gid_table());
  std::vector<candidate> fitting;
  for (const auto& entry : table) {
    if (query.port && entry.port != *query.port) continue;
    if (query.gid && entry.address != *query.gid) continue;
    if (wanted.subnet && !wanted.subnet->contains(entry.address)) continue;
    if (wanted.way && !lies_on(entry, *wanted.way, ctx.transport())) continue;
    const auto state = ports.at(entry.port - 1U).state;
    fitting.push_back({ctx, entry, state == port_state::active});
  }
  if (!fitting.empty()) return fitting;
  if (wanted.way)
    return refuse(fmt::format("is not on {}, the interface that reaches {}", wanted.way->netdev,
                              query.route_to));
  if (wanted.subnet) return refuse(fmt::format("has no address in {}", query.subnet));
  if (query.gid) return refuse(fmt::format("has no GID {}", describe(*query.gid)));
  return refuse("has no GID");
}

std::string reason_for(const candidate& chosen, const criteria& wanted, std::size_t considered) {
  std::vector<std::string> reasons;
  const auto& query = wanted.query;
  if (!query.name.empty()) reasons.emplace_back("it has the requested name");
  if (query.guid) reasons.emplace_back("it has the requested GUID");
  if (query.gid) reasons.emplace_back("it has the requested GID");
  if (wanted.subnet) reasons.push_back(fmt::format("its address lies in {}", query.subnet));
  if (wanted.way)
    reasons.push_back(
        fmt::format("{} is the interface that reaches {}", wanted.way->netdev, query.route_to));
  reasons.emplace_back(chosen.active ? "its port is active" : "no matching port is active");
  if (considered > 1)
    reasons.push_back(fmt::format("its GID is the best of {} that match", considered));
  return fmt::format("{}", fmt::join(reasons, ", "));
}

}  // namespace

std::string describe(const device_query& query) {
  std::vector<std::string> parts;
  if (!query.name.empty()) parts.push_back(fmt::format("name {}", query.name));
  if (query.guid) parts.push_back(fmt::format("guid {:#x}", query.guid->value()));
  if (query.gid) parts.push_back(fmt::format("gid {}", describe(*query.gid)));
  if (!query.subnet.empty()) parts.push_back(fmt::format("subnet {}", query.subnet));
  if (!query.route_to.empty()) parts.push_back(fmt::format("route to {}", query.route_to));
  if (query.port) parts.push_back(fmt::format("port {}", *query.port));
  if (query.transport) parts.push_back(fmt::format("transport {}", describe(*query.transport)));
  return parts.empty() ? "any device" : fmt::format("{}", fmt::join(parts, ", "));
}

std::string device_choice::describe() const {
  return fmt::format("{} port {} gid {} ({}, {}): {}", context_.device_name(), entry_.port,
                     entry_.index, rdmaxx::describe(entry_.address), rdmaxx::describe(entry_.type),
                     reason_);
}

std::string describe(const device_choice& choice) { return choice.describe(); }

result<device_choice> pick_device(const device_query& query) {
  criteria wanted{.query = query};
  if (query.port == std::uint8_t{0})
    return misuse_error("pick_device", "there is no port 0", "ports count from 1");
  if (!query.subnet.empty()) {
    RDMAXX_TRY(wanted.subnet, subnet::parse(query.subnet));
  }
  if (!query.route_to.empty()) {
    RDMAXX_TRY(wanted.way, route_towards(query.route_to));
    RDMAXX_TRY(wanted.peer, gid::parse(query.route_to));
  } else if (wanted.subnet) {
    wanted.peer = wanted.subnet->prefix;
  }
  RDMAXX_TRY(const auto list, devices());
  if (list.empty()) return detail::no_device_error("pick_device");

  std::vector<candidate> fitting;
  std::vector<std::string> refusals;
  for (const auto& dev : list) {
    if (auto found = candidates_of(dev, wanted)) {
      std::ranges::move(*found, std::back_inserter(fitting));
    } else {
      refusals.push_back(fmt::format("{} {}", dev.name(),
                                     found.error().problem().empty()
                                         ? found.error().message()
                                         : std::string(found.error().problem())));
    }
  }
  if (fitting.empty()) {
    return errno_error("pick_device", ENODEV, fmt::format("no device matches: {}", describe(query)),
                       fmt::format("{}", fmt::join(refusals, "; ")));
  }
  const auto best = std::ranges::max_element(fitting, {}, [&](const candidate& one) {
    return std::tuple(one.active, merit(one.entry, wanted.peer));
  });
  return device_choice(best->ctx, best->entry, reason_for(*best, wanted, fitting.size()));
}

result<gid_entry> pick_gid(const context& ctx, std::uint8_t port, const std::optional<gid>& peer) {
  RDMAXX_TRY(ctx.query_port(port));
  RDMAXX_TRY(auto table, ctx.query_gid_table());
  std::erase_if(table, [&](const gid_entry& entry) { return entry.port != port; });
  if (table.empty()) {
    return errno_error("pick_gid", ENOENT,
                       fmt::format("port {} of {} has no GID", port, ctx.device_name()),
                       "bring its network interface up and give it an address");
  }
  return *std::ranges::max_element(table, {},
                                   [&](const gid_entry& entry) { return merit(entry, peer); });
}

}  // namespace RDMAXX_NAMESPACE
