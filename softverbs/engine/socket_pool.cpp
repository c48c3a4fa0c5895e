#include <engine/socket_pool.hpp>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <utility>
#include <vector>

#include <base/descriptor.hpp>
#include <base/log.hpp>
#include <engine/host_protocol.hpp>
#include <engine/passed_descriptors.hpp>
#include <engine/receive_steering.hpp>
#include <netinet/in.h>
#include <sys/socket.h>

namespace softverbs::engine {
namespace {

using host_protocol::port_slots;

static_assert(port_slots <= most_sent_descriptors);

template <class T>
bool has_option(int fd, int option, T wanted) {
  T value{};
  socklen_t bytes = sizeof value;
  return ::getsockopt(fd, SOL_SOCKET, option, &value, &bytes) == 0 && value == wanted;
}

/// Whether a descriptor that somebody has passed on is the UDP port of the address.
bool is_port(int fd, const net::address& own, std::uint16_t port, unsigned netdev_index) {
  sockaddr_storage bound{};
  socklen_t bytes = sizeof bound;
  if (!has_option(fd, SO_TYPE, static_cast<int>(SOCK_DGRAM)) ||
      !has_option(fd, SO_PROTOCOL, static_cast<int>(IPPROTO_UDP)) ||
      ::getsockname(fd, reinterpret_cast<sockaddr*>(&bound), &bytes) != 0)
    return false;
  sockaddr_storage expected{};
  // Both families have the port at the same place.
  return own.to_sockaddr(port, netdev_index, expected) == bytes &&
         bound.ss_family == expected.ss_family &&
         net::address::from_sockaddr(reinterpret_cast<const sockaddr*>(&bound)) == own &&
         reinterpret_cast<const sockaddr_in&>(bound).sin_port ==
             reinterpret_cast<const sockaddr_in&>(expected).sin_port;
}

bool is_queue(int fd) {
  return has_option(fd, SO_DOMAIN, AF_UNIX) &&
         has_option(fd, SO_TYPE, static_cast<int>(SOCK_SEQPACKET)) &&
         has_option(fd, SO_ACCEPTCONN, 0);
}

/// The sockets beside the first one; none, with a line in the log, if the kernel cannot steer.
std::vector<std::unique_ptr<net::udp_socket>> bind_others(const net::udp_socket& first) {
  std::vector<std::unique_ptr<net::udp_socket>> others;
  bool complete = first.share_port();
  while (complete && others.size() + 1 < port_slots) {
    auto one =
        net::udp_socket::bind_beside(first.own_address(), first.port(), first.netdev_index());
    if (one == nullptr) {
      complete = false;
      break;
    }
    // Nobody reads it as yet: what comes shall not take memory.
    one->set_receive_buffer(0);
    others.push_back(std::move(one));
  }
  if (complete && receive_steering::attach(first.fd())) return others;
  log(log_level::info,
      "packets to UDP port {} of {} cannot be steered ({}): processes hand them to each other",
      first.port(), first.own_address().text(), std::strerror(errno));
  return {};
}

/// A queue with the descriptors in it; none with errno.
private_descriptor park(std::span<const int> fds) {
  std::array<int, 2> ends{};
  if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends.data()) != 0) return {};
  private_descriptor queue(ends[0]);
  const private_descriptor sender(ends[1]);
  char byte = 0;
  iovec part{.iov_base = &byte, .iov_len = 1};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  return send_descriptors(sender.get(), message, fds) ? std::move(queue) : private_descriptor();
}

/// Duplicates of the descriptors in the queue; none with errno.
std::vector<descriptor> look_into(int queue) {
  char byte = 0;
  iovec part{.iov_base = &byte, .iov_len = 1};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  const received_descriptors<port_slots> received(message);
  if (::recvmsg(queue, &message, MSG_PEEK | MSG_DONTWAIT | MSG_CMSG_CLOEXEC) != 1) return {};
  std::vector<descriptor> fds(port_slots);
  const auto came = descriptors_in(message, fds);
  if ((message.msg_flags & MSG_CTRUNC) == 0 && (came == 1 || came == port_slots)) {
    fds.resize(came);
    return fds;
  }
  errno = (message.msg_flags & MSG_CTRUNC) != 0 ? EMFILE : EPROTO;
  return {};
}

}  // namespace

std::optional<socket_pool> socket_pool::make(const net::udp_socket& first) {
  const auto others = bind_others(first);
  std::vector<int> fds{first.fd()};
  for (const auto& each : others) fds.push_back(each->fd());
  auto queue = park(fds);
  if (!queue) return std::nullopt;
  return socket_pool(std::move(queue), fds.size(), first.own_address(), first.port(),
                     first.netdev_index());
}

std::optional<socket_pool> socket_pool::adopt(private_descriptor queue, const net::address& own,
                                              std::uint16_t port, unsigned netdev_index) {
  if (!is_queue(queue.get())) {
    errno = EPROTO;
    return std::nullopt;
  }
  const auto fds = look_into(queue.get());
  if (fds.empty()) return std::nullopt;
  const bool sound = std::ranges::all_of(
      fds, [&](const descriptor& fd) { return is_port(fd.get(), own, port, netdev_index); });
  if (!sound) {
    errno = EPROTO;
    return std::nullopt;
  }
  return socket_pool(std::move(queue), fds.size(), own, port, netdev_index);
}

unsigned socket_pool::slot_of(std::uint16_t own_port) const noexcept {
  return size_ > 1 ? receive_steering::slot_of(own_port) : receive_steering::common_slot;
}

std::unique_ptr<net::udp_socket> socket_pool::socket(unsigned slot) const {
  auto fds = look_into(queue_.get());
  if (fds.empty()) return nullptr;
  // It may have been exchanged since, by a process that is trusted but wrong.
  if (slot >= fds.size() || !is_port(fds[slot].get(), own_, port_, netdev_)) {
    errno = EPROTO;
    return nullptr;
  }
  return net::udp_socket::adopt(std::move(fds[slot]), own_, port_, netdev_);
}

void socket_pool::stop_coalescing() const {
  for (auto& fd : look_into(queue_.get())) {
    net::udp_socket::adopt(std::move(fd), own_, port_, netdev_)->coalesce(false);
  }
}

}  // namespace softverbs::engine
