#include <net/credentials.hpp>

#include <algorithm>
#include <array>
#include <cstring>

#include <base/settings.hpp>
#include <linux/capability.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace softverbs::net {

std::optional<credentials> credentials_of_peer(int socket) {
  ucred peer{};
  socklen_t bytes = sizeof peer;
  if (::getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &peer, &bytes) != 0 || bytes != sizeof peer)
    return std::nullopt;
  // An unconnected socket has no peer, which the kernel calls user -1.
  if (peer.uid == static_cast<uid_t>(-1)) return std::nullopt;
  return credentials{.process = peer.pid, .user = peer.uid};
}

bool ask_for_credentials(int socket) {
  const int on = 1;
  return ::setsockopt(socket, SOL_SOCKET, SO_PASSCRED, &on, sizeof on) == 0;
}

std::optional<credentials> credentials_in(const msghdr& message) {
  auto* const whole = const_cast<msghdr*>(&message);
  for (auto* each = CMSG_FIRSTHDR(whole); each != nullptr; each = CMSG_NXTHDR(whole, each)) {
    if (each->cmsg_level != SOL_SOCKET || each->cmsg_type != SCM_CREDENTIALS) continue;
    ucred sender{};
    if (each->cmsg_len < CMSG_LEN(sizeof sender)) return std::nullopt;
    std::memcpy(&sender, CMSG_DATA(each), sizeof sender);
    return credentials{.process = sender.pid, .user = sender.uid};
  }
  return std::nullopt;
}

bool are_trusted(const credentials& who) {
  if (who.user == ::geteuid()) return true;
  return std::ranges::find(settings::get().trusted_users, who.user) !=
         settings::get().trusted_users.end();
}

bool may_bind_reserved_ports() {
  __user_cap_header_struct who{.version = _LINUX_CAPABILITY_VERSION_3, .pid = 0};
  std::array<__user_cap_data_struct, _LINUX_CAPABILITY_U32S_3> has{};
  if (::syscall(SYS_capget, &who, has.data()) != 0) return false;
  return (has[0].effective & 1U << CAP_NET_BIND_SERVICE) != 0;
}

}  // namespace softverbs::net
