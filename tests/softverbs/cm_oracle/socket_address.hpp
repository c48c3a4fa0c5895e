// An IPv4 or IPv6 address with a port, as the C functions want it.
#pragma once

#include <cstdint>
#include <string>

#include <netinet/in.h>
#include <sys/socket.h>

namespace cm_oracle {

class socket_address {
 public:
  socket_address() = default;
  explicit socket_address(const sockaddr& from);

  /// Throws std::invalid_argument. The port is in the host's order.
  static socket_address parse(const std::string& text, std::uint16_t port = 0);

  [[nodiscard]] socket_address with_port(std::uint16_t port) const;
  [[nodiscard]] std::uint16_t port() const;
  [[nodiscard]] int family() const { return storage_.ss_family; }
  [[nodiscard]] socklen_t size() const;
  /// Without the port.
  [[nodiscard]] std::string text() const;
  /// As a GID holds it: IPv4 addresses are mapped.
  [[nodiscard]] in6_addr as_ipv6() const;
  /// librdmacm does not promise to leave it alone.
  sockaddr* native() { return reinterpret_cast<sockaddr*>(&storage_); }

 private:
  [[nodiscard]] const sockaddr_in& v4() const {
    return reinterpret_cast<const sockaddr_in&>(storage_);
  }
  [[nodiscard]] const sockaddr_in6& v6() const {
    return reinterpret_cast<const sockaddr_in6&>(storage_);
  }

  sockaddr_storage storage_{};
};

}  // namespace cm_oracle
