#pragma once

// missing_port_error: connecting needs a port, which an address without one (port 0) does not have.

#include <rdmaxx/cm/socket_address.hpp>
#include <rdmaxx/core/error.hpp>

namespace RDMAXX_NAMESPACE::detail {

/// "; if 7471 is meant to be the port, use brackets: [::1]:7471" for ::1:7471, which is also a
/// complete address; empty for others.
[[nodiscard]] std::string bracket_hint(const socket_address& address);

[[nodiscard]] error missing_port_error(const socket_address& peer);

}  // namespace RDMAXX_NAMESPACE::detail
