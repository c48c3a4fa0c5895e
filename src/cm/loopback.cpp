#include "cm/loopback.hpp"

#include <cstring>

#include <netinet/in.h>

namespace RDMAXX_NAMESPACE::detail {

bool is_loopback(const socket_address& address) noexcept {
  if (address.is_ipv4()) {
    sockaddr_in native{};
    std::memcpy(&native, address.native(), sizeof native);
    return ntohl(native.sin_addr.s_addr) >> IN_CLASSA_NSHIFT == IN_LOOPBACKNET;
  }
  if (!address.is_ipv6()) return false;
  sockaddr_in6 native{};
  std::memcpy(&native, address.native(), sizeof native);
  return IN6_IS_ADDR_LOOPBACK(&native.sin6_addr) != 0;
}

}  // namespace RDMAXX_NAMESPACE::detail
