// Who is at the other end of an AF_UNIX socket, by the kernel's own word.
//
// Processes of one user may hurt each other anyway (signals, ptrace); processes of different users
// must not. So what is shared between processes of a host without going through the network stack
// is only for processes of the same user, and of those that SOFTVERBS_TRUSTED_USERS names.
#pragma once

#include <array>
#include <cstddef>
#include <optional>

#include <sys/socket.h>
#include <sys/types.h>

namespace softverbs::net {

struct credentials {
  pid_t process = 0;  ///< 0 if it lives in a PID namespace that this one does not see
  uid_t user = 0;
};

/// Of whoever connected the socket, or listens on the name it is connected to (SO_PEERCRED: as they
/// were at that moment). Nothing if the socket is not connected.
[[nodiscard]] std::optional<credentials> credentials_of_peer(int socket);

/// From now on every message that the socket receives tells who sent it; see credentials_in().
[[nodiscard]] bool ask_for_credentials(int socket);
/// The room that they take in the control data of a message.
inline constexpr std::size_t credentials_control_bytes = CMSG_SPACE(sizeof(ucred));
/// What the kernel attached to a received message; nothing if it did not.
[[nodiscard]] std::optional<credentials> credentials_in(const msghdr& message);

/// Whether rings, handoff sockets and descriptors may be shared with them.
[[nodiscard]] bool are_trusted(const credentials& who);

/// Whether this process may bind ports that are reserved (CAP_NET_BIND_SERVICE).
[[nodiscard]] bool may_bind_reserved_ports();

}  // namespace softverbs::net
