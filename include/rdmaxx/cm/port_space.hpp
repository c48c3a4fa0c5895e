#pragma once

// port_space: which kind of service a port number belongs to, and so which kind of queue pair.

#include <cstdint>
#include <string_view>

#include <rdma/rdma_cma.h>

#include <rdmaxx/verbs/qp_attributes.hpp>

namespace RDMAXX_NAMESPACE {

enum class port_space : std::uint16_t {
  tcp = RDMA_PS_TCP,      ///< connections, RC
  udp = RDMA_PS_UDP,      ///< datagrams and multicast, UD
  ipoib = RDMA_PS_IPOIB,  ///< multicast groups shared with IP over InfiniBand, UD
  ib = RDMA_PS_IB,        ///< any InfiniBand service, RC
};
[[nodiscard]] std::string_view describe(port_space space) noexcept;

[[nodiscard]] constexpr bool is_datagram(port_space space) noexcept {
  return space == port_space::udp || space == port_space::ipoib;
}

/// The queue pair type of this port space's identifiers.
[[nodiscard]] constexpr qp_type qp_type_of(port_space space) noexcept {
  return is_datagram(space) ? qp_type::ud : qp_type::rc;
}

}  // namespace RDMAXX_NAMESPACE
