#include "cm/no_port.hpp"

#include <fmt/format.h>

namespace rdmaxx::inline v0::detail {

error no_port_error(const socket_address& peer) {
  return misuse_error(fmt::format("connecting to {}", describe(peer)), "the address has no port",
                      "write 10.0.0.7:7471, [fd00::7]:7471 or host.example.org:7471");
}

}  // namespace rdmaxx::inline v0::detail
