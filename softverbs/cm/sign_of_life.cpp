#include <cm/sign_of_life.hpp>

#include <cerrno>

#include <engine/abstract_name.hpp>
#include <fmt/format.h>
#include <sys/socket.h>
#include <unistd.h>

namespace softverbs::cm {
namespace {

/// A socket for which `step` succeeds; negative if there is none.
template <class Step>
int socket_with(const net::address& address, std::uint16_t port, Step step) {
  const int fd = ::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (fd < 0) return -1;
  const engine::abstract_name name(text_of_life(address, std::to_string(port)));
  if (step(fd, name)) return fd;
  const int failure = errno;
  ::close(fd);
  errno = failure;
  return -1;
}

}  // namespace

std::string text_of_life(const net::address& own, std::string_view port) {
  return fmt::format("softverbs/life/{}/{}", own.text(), port);
}

int listen_for_life(const net::address& own, std::uint16_t port) {
  return socket_with(own, port, [](int fd, const engine::abstract_name& name) {
    return ::bind(fd, name.get(), name.bytes) == 0 && ::listen(fd, SOMAXCONN) == 0;
  });
}

int connect_to_life(const net::address& address, std::uint16_t port) {
  return socket_with(address, port, [](int fd, const engine::abstract_name& name) {
    return ::connect(fd, name.get(), name.bytes) == 0;
  });
}

}  // namespace softverbs::cm
