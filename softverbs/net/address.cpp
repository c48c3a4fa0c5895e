#include <net/address.hpp>

#include <algorithm>
#include <cstring>

#include <arpa/inet.h>

namespace softverbs::net {

namespace {

constexpr std::array<std::uint8_t, 12> ipv4_prefix{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};

/// Whether it means something only together with an interface: ff01:: and ff02::, too.
bool needs_scope(const address& address) {
  const bool near_group =
      address.raw[0] == 0xff && ((address.raw[1] & 0x0f) == 1 || (address.raw[1] & 0x0f) == 2);
  return near_group || (address.is_link_local() && !address.is_ipv4());
}

}  // namespace

address address::any(bool ipv4) noexcept {
  address every;
  if (ipv4) every.raw[10] = every.raw[11] = 0xff;
  return every;
}

address address::loopback(bool ipv4) noexcept {
  auto loopback = any(ipv4);
  if (ipv4) loopback.raw[12] = 127;
  loopback.raw[15] = 1;
  return loopback;
}

bool address::is_any() const noexcept { return *this == any(is_ipv4()); }

bool address::is_ipv4() const noexcept {
  return std::equal(ipv4_prefix.begin(), ipv4_prefix.end(), raw.begin());
}

bool address::is_loopback() const noexcept {
  return is_ipv4() ? raw[12] == 127 : *this == loopback(false);
}

bool address::is_link_local() const noexcept {
  if (is_ipv4()) return raw[12] == 169 && raw[13] == 254;
  return raw[0] == 0xfe && (raw[1] & 0xc0) == 0x80;
}

bool address::is_multicast() const noexcept {
  return is_ipv4() ? (raw[12] & 0xf0) == 0xe0 : raw[0] == 0xff;
}

std::string address::text() const {
  std::array<char, INET6_ADDRSTRLEN> buffer{};
  if (is_ipv4()) {
    ::inet_ntop(AF_INET, &raw[ipv4_prefix.size()], buffer.data(), buffer.size());
  } else {
    ::inet_ntop(AF_INET6, raw.data(), buffer.data(), buffer.size());
  }
  return buffer.data();
}

socklen_t address::to_sockaddr(std::uint16_t port, unsigned scope,
                               sockaddr_storage& out) const noexcept {
  out = {};
  if (is_ipv4()) {
    sockaddr_in four{};
    four.sin_family = AF_INET;
    four.sin_port = htons(port);
    std::memcpy(&four.sin_addr, &raw[ipv4_prefix.size()], sizeof four.sin_addr);
    std::memcpy(&out, &four, sizeof four);
    return sizeof four;
  }
  sockaddr_in6 six{};
  six.sin6_family = AF_INET6;
  six.sin6_port = htons(port);
  std::memcpy(&six.sin6_addr, raw.data(), raw.size());
  if (needs_scope(*this)) six.sin6_scope_id = scope;
  std::memcpy(&out, &six, sizeof six);
  return sizeof six;
}

address address::from_sockaddr(const sockaddr* from) noexcept {
  address result;
  if (from->sa_family == AF_INET) {
    sockaddr_in four{};
    std::memcpy(&four, from, sizeof four);
    std::ranges::copy(ipv4_prefix, result.raw.begin());
    std::memcpy(&result.raw[ipv4_prefix.size()], &four.sin_addr, sizeof four.sin_addr);
  } else if (from->sa_family == AF_INET6) {
    sockaddr_in6 six{};
    std::memcpy(&six, from, sizeof six);
    std::memcpy(result.raw.data(), &six.sin6_addr, result.raw.size());
  }
  return result;
}

}  // namespace softverbs::net
