// How processes of one host notice that another one has ended: each listens on an abstract AF_UNIX
// socket that is named after its address and port, others connect to it to watch it, and the kernel
// closes the connection with the process.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include <base/descriptor.hpp>
#include <net/address.hpp>

namespace softverbs::cm {

/// The name of the socket. With an empty `port`, what all names of the address begin with.
[[nodiscard]] std::string liveness_name(const net::address& own, std::string_view port);
/// A listening descriptor; none with errno.
[[nodiscard]] descriptor listen_for_watchers(const net::address& own, std::uint16_t port);
/// A descriptor that becomes readable when the process has ended; none with errno: ECONNREFUSED if
/// nobody listens. Any user can take a name: the caller asks who listens
/// (net::credentials_of_peer).
[[nodiscard]] descriptor connect_to_watch(const net::address& address, std::uint16_t port);

}  // namespace softverbs::cm
