// Descriptors that travel from one process to another, with a message over AF_UNIX.
#pragma once

#include <array>
#include <cstddef>
#include <span>

#include <net/credentials.hpp>
#include <sys/socket.h>

namespace softverbs::engine {

inline constexpr std::size_t most_descriptors = 3;

/// Sends the message with the descriptors attached, most_descriptors at most; false with errno if
/// nobody takes it. Never waits.
[[nodiscard]] bool send_descriptors(int socket, msghdr message, std::span<const int> fds);

/// Room for the descriptors of a message that is received, and for the credentials of its sender
/// where they are asked for; to be set before recvmsg.
class received_descriptors {
 public:
  explicit received_descriptors(msghdr& message);
  /// The descriptors that came, now the caller's to close, if there are exactly `count` of them.
  /// Else all of them are closed, and all elements are -1.
  [[nodiscard]] std::array<int, most_descriptors> take(const msghdr& message,
                                                       std::size_t count) const;

 private:
  // What a neighbour sends beyond this, the kernel does not even install.
  alignas(cmsghdr) std::array<unsigned char, CMSG_SPACE(most_descriptors * sizeof(int)) +
                                                 net::credentials_control_bytes> control_{};
};

}  // namespace softverbs::engine
