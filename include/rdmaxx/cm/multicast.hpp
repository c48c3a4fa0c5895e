#pragma once

// multicast: groups of UD queue pairs that one send reaches.
//
//   id.bind(here).value();                                  // of port_space::udp
//   id.create_qp().value();
//   id.join_multicast(group).value();                       // → multicast_join
//   auto peer = event.datagram_peer();                      // where to send to reach the group
//   id.leave_multicast(group).value();
//
// cm::join_multicast() does this and waits, see cm/datagram.hpp. Destroying an identifier leaves
// its groups.

#include <cstdint>
#include <string_view>

#include <rdmaxx/core/variant.hpp>

namespace RDMAXX_NAMESPACE {

enum class multicast_membership : std::uint8_t {
  full,       ///< receives and sends
  send_only,  ///< a full member that does not receive; not every network supports it
};
[[nodiscard]] std::string_view describe(multicast_membership kind) noexcept;

}  // namespace RDMAXX_NAMESPACE
