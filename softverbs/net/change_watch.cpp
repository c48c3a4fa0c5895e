#include <net/change_watch.hpp>

#include <array>
#include <cerrno>
#include <cstddef>

#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <sys/socket.h>

namespace softverbs::net {

change_watch::change_watch()
    : fd_(::socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, NETLINK_ROUTE)) {
  if (!fd_) return;
  sockaddr_nl name{};
  name.nl_family = AF_NETLINK;
  name.nl_groups = RTMGRP_LINK | RTMGRP_IPV4_IFADDR | RTMGRP_IPV6_IFADDR;
  if (::bind(fd_.get(), reinterpret_cast<const sockaddr*>(&name), sizeof name) == 0) return;
  fd_.reset();
}

void change_watch::drain() const {
  std::array<std::byte, 4096> message{};
  // ENOBUFS says that some were lost: that is news as well.
  while (::recv(fd_.get(), message.data(), message.size(), 0) >= 0 || errno == EINTR ||
         errno == ENOBUFS);
}

}  // namespace softverbs::net
