#include <cm/liveness.hpp>

#include <cerrno>

#include <engine/abstract_name.hpp>
#include <fmt/format.h>
#include <sys/socket.h>

namespace softverbs::cm {
namespace {

/// A socket for which `step` succeeds; none with errno.
template <class Step>
descriptor socket_with(const net::address& address, std::uint16_t port, Step step) {
  descriptor fd(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd) return {};
  const engine::abstract_name name(liveness_name(address, std::to_string(port)));
  if (!step(fd.get(), name)) return {};
  return fd;
}

}  // namespace

std::string liveness_name(const net::address& own, std::string_view port) {
  return fmt::format("softverbs/life/{}/{}", own.text(), port);
}

descriptor listen_for_watchers(const net::address& own, std::uint16_t port) {
  return socket_with(own, port, [](int fd, const engine::abstract_name& name) {
    return ::bind(fd, name.get(), name.bytes) == 0 && ::listen(fd, SOMAXCONN) == 0;
  });
}

descriptor connect_to_watch(const net::address& address, std::uint16_t port) {
  return socket_with(address, port, [](int fd, const engine::abstract_name& name) {
    return ::connect(fd, name.get(), name.bytes) == 0;
  });
}

}  // namespace softverbs::cm
