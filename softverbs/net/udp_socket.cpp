#include <net/udp_socket.hpp>

#include <cerrno>
#include <cstring>

#include <base/log.hpp>
#include <netinet/in.h>
#include <netinet/udp.h>
#include <sys/socket.h>
#include <unistd.h>

namespace softverbs::net {
namespace {

template <class T>
void set(int fd, int level, int option, const T& value) {
  // Missing options cost speed or a check, never correctness: what matters is tested by bind().
  if (::setsockopt(fd, level, option, &value, sizeof value) != 0) {
    log(log_level::debug, "setsockopt({}, {}): {}", level, option, std::strerror(errno));
  }
}

void set_receive_buffer_of(int fd, int bytes) {
  // Beyond the limit of the system where the process may.
  if (::setsockopt(fd, SOL_SOCKET, SO_RCVBUFFORCE, &bytes, sizeof bytes) != 0)
    set(fd, SOL_SOCKET, SO_RCVBUF, bytes);
}

void configure(int fd, bool ipv4) {
  const auto bytes = static_cast<int>(settings::get().socket_buffer_bytes);
  set_receive_buffer_of(fd, bytes);
  if (::setsockopt(fd, SOL_SOCKET, SO_SNDBUFFORCE, &bytes, sizeof bytes) != 0)
    set(fd, SOL_SOCKET, SO_SNDBUF, bytes);
  // With DF an unconnected socket writes identification 0, which the ICRC covers.
  if (ipv4) {
    set(fd, IPPROTO_IP, IP_MTU_DISCOVER, IP_PMTUDISC_PROBE);
  } else {
    set(fd, IPPROTO_IPV6, IPV6_V6ONLY, 1);
    // An address that is new is not to be had until the kernel knows that nobody else has it, which
    // takes a second or two; it is bound already.
    set(fd, IPPROTO_IPV6, IPV6_FREEBIND, 1);
    set(fd, IPPROTO_IPV6, IPV6_MTU_DISCOVER, IPV6_PMTUDISC_PROBE);
    // The kernel's rxe sends UDP checksum 0 over IPv6 too.
    set(fd, IPPROTO_UDP, UDP_NO_CHECK6_RX, 1);
  }
  set(fd, IPPROTO_UDP, UDP_GRO, 1);
}

std::uint16_t port_of(int fd) {
  sockaddr_storage bound{};
  socklen_t bytes = sizeof bound;
  if (::getsockname(fd, reinterpret_cast<sockaddr*>(&bound), &bytes) != 0) return 0;
  if (bound.ss_family == AF_INET) return ntohs(reinterpret_cast<sockaddr_in&>(bound).sin_port);
  return ntohs(reinterpret_cast<sockaddr_in6&>(bound).sin6_port);
}

}  // namespace

std::unique_ptr<udp_socket> udp_socket::open(const address& own, unsigned netdev_index) {
  const int family = own.is_ipv4() ? AF_INET : AF_INET6;
  descriptor fd(::socket(family, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  if (!fd) return nullptr;
  configure(fd.get(), own.is_ipv4());
  return adopt(std::move(fd), own, 0, netdev_index);
}

bool udp_socket::bind_to(std::uint16_t port) {
  sockaddr_storage name{};
  const auto bytes = own_.to_sockaddr(port, netdev_index_, name);
  if (::bind(fd_.get(), reinterpret_cast<const sockaddr*>(&name), bytes) != 0) return false;
  port_ = port_of(fd_.get());
  return true;
}

std::unique_ptr<udp_socket> udp_socket::bind(const address& own, std::uint16_t port,
                                             unsigned netdev_index) {
  auto made = open(own, netdev_index);
  if (made == nullptr) return nullptr;
  made->send_to_groups_through_netdev();
  return made->bind_to(port) ? std::move(made) : nullptr;
}

std::unique_ptr<udp_socket> udp_socket::bind_beside(const address& own, std::uint16_t port,
                                                    unsigned netdev_index) {
  auto made = open(own, netdev_index);
  if (made == nullptr || !made->share_port()) return nullptr;
  return made->bind_to(port) ? std::move(made) : nullptr;
}

bool udp_socket::share_port() const {
  const int on = 1;
  return ::setsockopt(fd_.get(), SOL_SOCKET, SO_REUSEPORT, &on, sizeof on) == 0;
}

void udp_socket::set_receive_buffer(std::size_t bytes) const {
  set_receive_buffer_of(fd_.get(), static_cast<int>(bytes));
}

void udp_socket::coalesce(bool wanted) const {
  set(fd_.get(), IPPROTO_UDP, UDP_GRO, static_cast<int>(wanted));
}

// Whatever the routes say.
void udp_socket::send_to_groups_through_netdev() const {
  const auto index = static_cast<int>(netdev_index_);
  if (own_.is_ipv4()) {
    const ip_mreqn through{.imr_multiaddr = {}, .imr_address = {}, .imr_ifindex = index};
    set(fd_.get(), IPPROTO_IP, IP_MULTICAST_IF, through);
  } else {
    set(fd_.get(), IPPROTO_IPV6, IPV6_MULTICAST_IF, index);
  }
}

std::unique_ptr<udp_socket> udp_socket::join(const address& group, std::uint16_t port,
                                             unsigned netdev_index) {
  auto made = open(group, netdev_index);
  if (made == nullptr) return nullptr;
  const int fd = made->fd();
  set(fd, SOL_SOCKET, SO_REUSEADDR, 1);
  if (!made->bind_to(port)) return nullptr;
  // Not what other sockets of this host have joined on other interfaces.
  const auto index = static_cast<int>(netdev_index);
  int joined = 0;
  if (group.is_ipv4()) {
    set(fd, IPPROTO_IP, IP_MULTICAST_ALL, 0);
    ip_mreqn membership{.imr_multiaddr = {}, .imr_address = {}, .imr_ifindex = index};
    std::memcpy(&membership.imr_multiaddr, group.raw.data() + 12, 4);
    joined = ::setsockopt(fd, IPPROTO_IP, IP_ADD_MEMBERSHIP, &membership, sizeof membership);
  } else {
    set(fd, IPPROTO_IPV6, IPV6_MULTICAST_ALL, 0);
    ipv6_mreq membership{.ipv6mr_multiaddr = {}, .ipv6mr_interface = netdev_index};
    std::memcpy(&membership.ipv6mr_multiaddr, group.raw.data(), group.raw.size());
    joined = ::setsockopt(fd, IPPROTO_IPV6, IPV6_JOIN_GROUP, &membership, sizeof membership);
  }
  return joined == 0 ? std::move(made) : nullptr;
}

std::unique_ptr<udp_socket> udp_socket::adopt(descriptor fd, const address& own, std::uint16_t port,
                                              unsigned netdev_index) {
  return std::unique_ptr<udp_socket>(new udp_socket(std::move(fd), own, port, netdev_index));
}

int udp_socket::send(const sockaddr_storage& to, socklen_t to_bytes, std::span<const iovec> parts,
                     std::size_t segment_bytes, std::uint8_t traffic_class) const {
  msghdr message{};
  message.msg_name = const_cast<sockaddr_storage*>(&to);
  message.msg_namelen = to_bytes;
  message.msg_iov = const_cast<iovec*>(parts.data());
  message.msg_iovlen = parts.size();
  alignas(cmsghdr)
      std::array<std::byte, CMSG_SPACE(sizeof(std::uint16_t)) + CMSG_SPACE(sizeof(int))>
          control{};
  const auto add_control = [&]<class T>(int level, int type, const T& value) {
    auto* const at = control.data() + message.msg_controllen;
    const cmsghdr header{
        .cmsg_len = CMSG_LEN(sizeof value), .cmsg_level = level, .cmsg_type = type};
    std::memcpy(at, &header, sizeof header);
    std::memcpy(at + CMSG_LEN(0), &value, sizeof value);
    message.msg_control = control.data();
    message.msg_controllen += CMSG_SPACE(sizeof value);
  };
  if (segment_bytes != 0) {
    add_control(IPPROTO_UDP, UDP_SEGMENT, static_cast<std::uint16_t>(segment_bytes));
  }
  if (traffic_class != 0) {
    const bool ipv4 = to.ss_family == AF_INET;
    add_control(ipv4 ? IPPROTO_IP : IPPROTO_IPV6, ipv4 ? IP_TOS : IPV6_TCLASS, int{traffic_class});
  }
  for (;;) {
    if (::sendmsg(fd_.get(), &message, MSG_NOSIGNAL) >= 0) return 0;
    if (errno != EINTR) return errno;
  }
}

receive_buffers::receive_buffers() : memory_(datagrams * datagram_bytes) {
  for (std::size_t i = 0; i < datagrams; ++i) {
    parts_[i] = {.iov_base = memory_.data() + i * datagram_bytes, .iov_len = datagram_bytes};
  }
}

std::span<const receive_buffers::train> receive_buffers::receive(const udp_socket& socket) {
  std::array<mmsghdr, datagrams> messages{};
  for (std::size_t i = 0; i < datagrams; ++i) {
    auto& header = messages[i].msg_hdr;
    header.msg_name = &sources_[i];
    header.msg_namelen = sizeof sources_[i];
    header.msg_iov = &parts_[i];
    header.msg_iovlen = 1;
    header.msg_control = control_[i].data();
    header.msg_controllen = control_[i].size();
  }
  const int count = ::recvmmsg(socket.fd(), messages.data(), datagrams, MSG_DONTWAIT, nullptr);
  if (count <= 0) return {};
  for (std::size_t i = 0; i < static_cast<std::size_t>(count); ++i) {
    auto& header = messages[i].msg_hdr;
    auto& into = trains_[i];
    into.bytes = {static_cast<const std::byte*>(parts_[i].iov_base), messages[i].msg_len};
    into.segment_bytes = messages[i].msg_len;
    for (auto* each = CMSG_FIRSTHDR(&header); each != nullptr; each = CMSG_NXTHDR(&header, each)) {
      if (each->cmsg_level != IPPROTO_UDP || each->cmsg_type != UDP_GRO) continue;
      int segment = 0;
      std::memcpy(&segment, CMSG_DATA(each), sizeof segment);
      if (segment > 0) into.segment_bytes = static_cast<std::size_t>(segment);
    }
    const auto* from = reinterpret_cast<const sockaddr*>(&sources_[i]);
    into.source = address::from_sockaddr(from);
    into.source_port =
        ntohs(from->sa_family == AF_INET ? reinterpret_cast<const sockaddr_in*>(from)->sin_port
                                         : reinterpret_cast<const sockaddr_in6*>(from)->sin6_port);
  }
  return {trains_.data(), static_cast<std::size_t>(count)};
}

}  // namespace softverbs::net
