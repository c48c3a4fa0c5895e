// Whose a UDP port of this host is, by the kernel's table of sockets.
//
// A message over AF_UNIX tells who sent it, but not from which UDP port the sender speaks
// otherwise. What another user says of its own port is believed only if this table agrees.
#pragma once

#include <cstdint>
#include <istream>

#include <net/address.hpp>
#include <sys/types.h>

namespace softverbs::net {

/// Whether a socket is bound to exactly that address and port, and every such socket is the user's.
[[nodiscard]] bool owns_udp_socket(uid_t user, const address& own, std::uint16_t port);

/// The same in a table of the form of /proc/net/udp and /proc/net/udp6.
[[nodiscard]] bool owns_udp_socket(std::istream& table, uid_t user, const address& own,
                                   std::uint16_t port);

}  // namespace softverbs::net
