#pragma once

// Loopback addresses, which rdma_cm treats specially: a bound one has no device until it is
// resolved or listens, and conflicts with every address when ports are compared.

#include <rdmaxx/cm/socket_address.hpp>

namespace RDMAXX_NAMESPACE::detail {

/// 127.0.0.0/8 or ::1.
[[nodiscard]] bool is_loopback(const socket_address& address) noexcept;

}  // namespace RDMAXX_NAMESPACE::detail
