#include "scene.hpp"

#include <array>
#include <cstring>

#include <arpa/inet.h>
#include <unistd.h>

namespace cm_oracle {

namespace {

json zero_or_not(std::uint32_t number) { return number == 0 ? json(0) : json("not 0"); }

bool same(const in6_addr& a, const in6_addr& b) { return std::memcmp(&a, &b, sizeof a) == 0; }

}  // namespace

side& scene::add(const std::string& name) { return sides_.emplace_back(*this, name); }

void scene::know_port(std::uint16_t port, const std::string& owner) {
  const std::lock_guard lock(known_mutex_);
  ports_.try_emplace(port, owner);
}

void scene::know_qp(std::uint32_t number, const std::string& owner) {
  const std::lock_guard lock(known_mutex_);
  qps_[number] = owner;
}

std::uint32_t scene::invent_qp(const std::string& owner) {
  const auto process = static_cast<std::uint32_t>(getpid()) & 0x7ffffU;
  const auto number = 0x800000U | process << 4U | invented_++;
  know_qp(number, owner);
  return number;
}

json scene::describe_port(std::uint16_t port) const {
  const std::lock_guard lock(known_mutex_);
  const auto found = ports_.find(port);
  return found == ports_.end() ? zero_or_not(port) : json(found->second);
}

json scene::describe_qp(std::uint32_t number) const {
  const std::lock_guard lock(known_mutex_);
  const auto found = qps_.find(number);
  return found == qps_.end() ? zero_or_not(number) : json(found->second);
}

json scene::describe(const socket_address& address) const {
  if (address.family() != AF_INET && address.family() != AF_INET6) {
    return {{"family", name_of_family(address.family())}};
  }
  const auto ip = address.text();
  return {{"family", name_of_family(address.family())},
          {"address", ip == where_.own.text() || ip == where_.own6.text() ? "own" : ip},
          {"port", describe_port(address.port())}};
}

json scene::describe(const ibv_gid& gid) const {
  in6_addr address{};
  std::memcpy(&address, gid.raw, sizeof address);
  if (same(address, where_.own.as_ipv6())) return "own IPv4";
  if (same(address, where_.own6.as_ipv6())) return "own IPv6";
  std::array<char, INET6_ADDRSTRLEN> text{};
  return inet_ntop(AF_INET6, &address, text.data(), static_cast<socklen_t>(text.size()));
}

json scene::describe(const ibv_ah_attr& attributes) const {
  return {{"is_global", attributes.is_global},
          {"dgid", describe(attributes.grh.dgid)},
          {"sgid_index", attributes.grh.sgid_index},
          {"flow_label", zero_or_not(attributes.grh.flow_label)},
          {"hop_limit", attributes.grh.hop_limit},
          {"traffic_class", attributes.grh.traffic_class},
          {"dlid", attributes.dlid},
          {"sl", attributes.sl},
          {"src_path_bits", attributes.src_path_bits},
          {"static_rate", attributes.static_rate},
          {"port_num", attributes.port_num}};
}

json scene::result() const {
  json sides = json::object();
  for (const auto& each : sides_) sides[each.name()] = each.steps();
  return sides;
}

}  // namespace cm_oracle
