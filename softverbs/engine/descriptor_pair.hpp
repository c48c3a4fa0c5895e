// Two descriptors that travel together from one process to another, with a message over AF_UNIX.
#pragma once

#include <array>

#include <net/credentials.hpp>
#include <sys/socket.h>

namespace softverbs::engine {

using descriptor_pair = std::array<int, 2>;

/// Sends the message with the descriptors attached; false if nobody takes it. Never waits.
[[nodiscard]] bool send_descriptors(int socket, msghdr message, const descriptor_pair& fds);

/// Room for the descriptors of a message that is received, and for the credentials of its sender
/// where they are asked for; to be set before recvmsg.
class received_descriptors {
 public:
  explicit received_descriptors(msghdr& message);
  /// Those that came, now the caller's to close; -1 for those that did not.
  [[nodiscard]] descriptor_pair take(const msghdr& message) const;

 private:
  alignas(cmsghdr) std::array<unsigned char, CMSG_SPACE(sizeof(descriptor_pair)) +
                                                 net::credentials_control_bytes> control_{};
};

}  // namespace softverbs::engine
