// How processes of one host notice each other's end: each listens on an abstract AF_UNIX socket
// that is named after its address and port, others connect to it, and the kernel closes the
// connection with the process.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include <base/descriptor.hpp>
#include <net/address.hpp>

namespace softverbs::cm {

/// `port` may be empty: the beginning of the name.
[[nodiscard]] std::string text_of_life(const net::address& own, std::string_view port);
/// A listening descriptor; negative with errno.
[[nodiscard]] descriptor listen_for_life(const net::address& own, std::uint16_t port);
/// A descriptor that becomes readable when the process is gone; negative with errno: ECONNREFUSED
/// if nobody listens. Who does is for the caller to ask (net::credentials_of_peer): any user can
/// take a name.
[[nodiscard]] descriptor connect_to_life(const net::address& address, std::uint16_t port);

}  // namespace softverbs::cm
