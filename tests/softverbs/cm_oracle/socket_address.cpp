#include "socket_address.hpp"

#include <array>
#include <cstring>
#include <stdexcept>

#include <arpa/inet.h>

namespace cm_oracle {

socket_address::socket_address(const sockaddr& from) {
  storage_.ss_family = from.sa_family;
  std::memcpy(&storage_, &from, size());
}

socket_address socket_address::parse(const std::string& text, std::uint16_t port) {
  socket_address made;
  sockaddr_in as_v4{};
  sockaddr_in6 as_v6{};
  if (inet_pton(AF_INET, text.c_str(), &as_v4.sin_addr) == 1) {
    as_v4.sin_family = AF_INET;
    std::memcpy(&made.storage_, &as_v4, sizeof as_v4);
  } else if (inet_pton(AF_INET6, text.c_str(), &as_v6.sin6_addr) == 1) {
    as_v6.sin6_family = AF_INET6;
    std::memcpy(&made.storage_, &as_v6, sizeof as_v6);
  } else {
    throw std::invalid_argument("not an address: " + text);
  }
  return made.with_port(port);
}

socket_address socket_address::with_port(std::uint16_t port) const {
  auto made = *this;
  // Both families have it at the same place.
  reinterpret_cast<sockaddr_in&>(made.storage_).sin_port = htons(port);
  return made;
}

std::uint16_t socket_address::port() const { return ntohs(v4().sin_port); }

socklen_t socket_address::size() const {
  switch (storage_.ss_family) {
    case AF_INET:
      return sizeof(sockaddr_in);
    case AF_INET6:
      return sizeof(sockaddr_in6);
    default:
      return sizeof(sa_family_t);
  }
}

std::string socket_address::text() const {
  std::array<char, INET6_ADDRSTRLEN> buffer{};
  const void* const from = family() == AF_INET ? static_cast<const void*>(&v4().sin_addr)
                                               : static_cast<const void*>(&v6().sin6_addr);
  const char* const text =
      inet_ntop(family(), from, buffer.data(), static_cast<socklen_t>(buffer.size()));
  return text == nullptr ? "" : text;
}

in6_addr socket_address::as_ipv6() const {
  if (family() == AF_INET6) return v6().sin6_addr;
  in6_addr mapped{};
  mapped.s6_addr[10] = mapped.s6_addr[11] = 0xff;
  std::memcpy(&mapped.s6_addr[12], &v4().sin_addr, sizeof(in_addr));
  return mapped;
}

}  // namespace cm_oracle
