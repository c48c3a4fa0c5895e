// An IP address of one of this host's netdevs or of a peer, in the form in which verbs know it: as
// a GID, IPv4 mapped into IPv6.
#pragma once

#include <array>
#include <compare>
#include <cstdint>
#include <string>

#include <netinet/in.h>
#include <sys/socket.h>

namespace softverbs::net {

struct address {
  std::array<std::uint8_t, 16> raw{};  ///< network byte order; ::ffff:a.b.c.d for IPv4

  /// What stands for every address of the family: 0.0.0.0 or ::.
  [[nodiscard]] static address any(bool ipv4) noexcept;
  [[nodiscard]] bool is_any() const noexcept;
  [[nodiscard]] static address loopback(bool ipv4) noexcept;  ///< 127.0.0.1 or ::1
  [[nodiscard]] bool is_ipv4() const noexcept;
  [[nodiscard]] bool is_loopback() const noexcept;
  [[nodiscard]] bool is_link_local() const noexcept;
  [[nodiscard]] bool is_multicast() const noexcept;
  [[nodiscard]] std::string text() const;

  /// `scope` is the netdev's index; used for link-local IPv6 addresses alone.
  [[nodiscard]] socklen_t to_sockaddr(std::uint16_t port, unsigned scope,
                                      sockaddr_storage& out) const noexcept;
  /// Nothing but zeros for a family that is neither IPv4 nor IPv6.
  [[nodiscard]] static address from_sockaddr(const sockaddr* from) noexcept;

  friend auto operator<=>(const address&, const address&) noexcept = default;
};

}  // namespace softverbs::net
