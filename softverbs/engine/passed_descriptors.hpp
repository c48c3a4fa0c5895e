// Descriptors that one process sends to another, with a message over AF_UNIX. What comes is
// foreign: the receiver closes whatever it did not ask for. Functions without state; any thread.
#pragma once

#include <array>
#include <cstddef>
#include <span>

#include <base/descriptor.hpp>
#include <net/credentials.hpp>
#include <sys/socket.h>

namespace softverbs::engine {

/// With one message. The kernel's own limit is 253.
inline constexpr std::size_t most_sent_descriptors = 64;
inline constexpr std::size_t most_descriptors = 3;

/// Sends the message with the descriptors attached, most_sent_descriptors at most; false with errno
/// if nobody takes it. Never waits.
[[nodiscard]] bool send_descriptors(int socket, msghdr message, std::span<const int> fds);

/// Puts the descriptors that came with the message into `fds`, as many as there is room for, and
/// closes the others. Returns how many came.
[[nodiscard]] std::size_t descriptors_in(const msghdr& message, std::span<descriptor> fds);

/// Room for the descriptors of a message that is received, and for the credentials of its sender
/// where they are asked for; to be set before recvmsg.
template <std::size_t room = most_descriptors>
class received_descriptors {
 public:
  explicit received_descriptors(msghdr& message) {
    message.msg_control = control_.data();
    message.msg_controllen = control_.size();
  }
  /// The descriptors that came, if there are exactly `count` of them; else all of them are closed.
  [[nodiscard]] std::array<descriptor, room> take(const msghdr& message, std::size_t count) const {
    std::array<descriptor, room> fds;
    if (descriptors_in(message, fds) != count) return {};
    return fds;
  }

 private:
  // What a neighbour sends beyond this, the kernel does not even install.
  alignas(cmsghdr) std::array<unsigned char, CMSG_SPACE(room * sizeof(int)) +
                                                 net::credentials_control_bytes> control_{};
};

}  // namespace softverbs::engine
