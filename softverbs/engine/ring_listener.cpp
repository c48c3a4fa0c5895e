#include <engine/ring_listener.hpp>

#include <cerrno>

#include <engine/host_protocol.hpp>
#include <sys/socket.h>
#include <unistd.h>

namespace softverbs::engine {
namespace {

// Whoever finds that many waiting sends through sockets instead.
constexpr int most_waiting_connections = 64;

}  // namespace

std::unique_ptr<ring_listener> ring_listener::open(const net::address& own, std::uint16_t port) {
  descriptor fd(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd) return nullptr;
  const auto name = host_protocol::ring_listener_name(own, port);
  if (::bind(fd.get(), name.get(), name.bytes) != 0 ||
      ::listen(fd.get(), most_waiting_connections) != 0) {
    return nullptr;
  }
  return std::unique_ptr<ring_listener>(new ring_listener(std::move(fd), own, port));
}

}  // namespace softverbs::engine
