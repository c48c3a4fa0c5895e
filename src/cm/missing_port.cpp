#include "cm/missing_port.hpp"

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <span>

#include <arpa/inet.h>
#include <fmt/format.h>
#include <netinet/in.h>

namespace RDMAXX_NAMESPACE::detail {

namespace {

/// The first seven of the eight groups of an address, with the longest run of zeros as "::"; empty
/// if there is none, because seven groups are then not an address.
std::string shortened(std::span<const std::uint16_t, 7> groups) {
  std::size_t begin = 0;
  std::size_t length = 0;
  for (std::size_t first = 0; first < groups.size(); ++first) {
    const auto rest = groups.subspan(first);
    const auto zeros = static_cast<std::size_t>(
        std::ranges::find_if(rest, [](auto group) { return group != 0; }) - rest.begin());
    if (zeros > length) {
      begin = first;
      length = zeros;
    }
  }
  if (length == 0) return {};
  std::string text;
  for (std::size_t i = 0; i < begin; ++i)
    text += fmt::format("{}{:x}", i == 0 ? "" : ":", groups[i]);
  text += "::";
  for (std::size_t i = begin + length; i < groups.size(); ++i)
    text += fmt::format("{}{:x}", i == begin + length ? "" : ":", groups[i]);
  return text;
}

}  // namespace

std::string bracket_hint(const socket_address& address) {
  if (!address.is_ipv6() || address.port() != 0) return {};
  sockaddr_in6 native{};
  std::memcpy(&native, address.native(), sizeof native);
  std::array<std::uint16_t, 8> groups{};
  std::memcpy(groups.data(), &native.sin6_addr, sizeof native.sin6_addr);
  for (auto& group : groups) group = ntohs(group);
  const auto port = fmt::format("{:x}", groups[7]);
  const auto host = shortened(std::span(groups).first<7>());
  if (host.empty() || groups[7] == 0 || port.find_first_not_of("0123456789") != std::string::npos)
    return {};
  return fmt::format("; if {} is meant to be the port, use brackets: [{}]:{}", port, host, port);
}

error missing_port_error(const socket_address& peer) {
  return misuse_error(
      fmt::format("connecting to {}", describe(peer)), "the address has no port",
      "write 10.0.0.7:7471, [fd00::7]:7471 or host.example.org:7471" + bracket_hint(peer));
}

}  // namespace RDMAXX_NAMESPACE::detail
