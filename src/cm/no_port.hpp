#pragma once

// no_port_error: connecting needs a port, which an address without one (port 0) does not have.

#include <rdmaxx/cm/socket_address.hpp>
#include <rdmaxx/core/error.hpp>

namespace rdmaxx::inline v0::detail {

[[nodiscard]] error no_port_error(const socket_address& peer);

}  // namespace rdmaxx::inline v0::detail
