#include <engine/handoff_socket.hpp>

#include <array>
#include <cerrno>
#include <cstring>
#include <vector>

#include <base/settings.hpp>
#include <base/undo.hpp>
#include <engine/host_protocol.hpp>
#include <sys/socket.h>
#include <unistd.h>

namespace softverbs::engine {
namespace {

using host_protocol::handoff_header;
using host_protocol::handoff_name;

constexpr std::uint16_t of_packets = 0;
constexpr int most_thrown_away = 64;

}  // namespace

std::unique_ptr<handoff_socket> handoff_socket::open(const net::address& own, std::uint16_t port) {
  return open(handoff_name(own, port), own, port);
}

std::unique_ptr<handoff_socket> handoff_socket::open(const abstract_name& name,
                                                     const net::address& own, std::uint16_t port) {
  descriptor fd(::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd || !net::ask_for_credentials(fd.get()) || ::bind(fd.get(), name.get(), name.bytes) != 0) {
    return nullptr;
  }
  const auto bytes = static_cast<int>(settings::get().socket_buffer_bytes);
  ::setsockopt(fd.get(), SOL_SOCKET, SO_RCVBUF, &bytes, sizeof bytes);
  return std::unique_ptr<handoff_socket>(new handoff_socket(std::move(fd), own, port));
}

bool handoff_socket::take(std::span<std::byte> memory, burst& out, from whom) const {
  // Whoever else writes here shall not keep this thread busy for ever.
  for (int thrown_away = 0; thrown_away < most_thrown_away; ++thrown_away) {
    out = {};
    iovec part{.iov_base = memory.data(), .iov_len = memory.size()};
    // No room for descriptors: the kernel closes what anybody may send along.
    alignas(cmsghdr) std::array<unsigned char, net::credentials_control_bytes> control{};
    msghdr message{};
    message.msg_iov = &part;
    message.msg_iovlen = 1;
    message.msg_control = control.data();
    message.msg_controllen = control.size();
    const auto bytes = ::recvmsg(fd_.get(), &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
    if (bytes < 0) return false;
    const auto who = net::credentials_in(message);
    handoff_header header;
    if (!who || (whom == from::trusted_users && !net::are_trusted(*who))) continue;
    if (bytes < static_cast<ssize_t>(sizeof header)) continue;
    std::memcpy(&header, memory.data(), sizeof header);
    if (header.kind != of_packets || header.segment_bytes == 0) continue;
    out.sender = *who;
    out.source = header.source;
    out.destination = header.destination;
    out.source_port = header.source_port;
    out.packets = memory.subspan(sizeof header, static_cast<std::size_t>(bytes) - sizeof header);
    out.segment_bytes = header.segment_bytes;
    return true;
  }
  return false;
}

descriptor handoff_socket::connect_to(const net::address& to, std::uint16_t to_port) {
  return connect_to(handoff_name(to, to_port));
}

descriptor handoff_socket::connect_to(const abstract_name& name) {
  descriptor fd(::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd) return {};
  const auto bytes = static_cast<int>(settings::get().socket_buffer_bytes);
  ::setsockopt(fd.get(), SOL_SOCKET, SO_SNDBUF, &bytes, sizeof bytes);
  if (::connect(fd.get(), name.get(), name.bytes) != 0) return {};
  return fd;
}

bool handoff_socket::send(int socket, const wire::flow& flow, std::span<const iovec> packets,
                          std::size_t segment_bytes) {
  handoff_header header{.source = flow.source,
                        .destination = flow.destination,
                        .source_port = flow.source_port,
                        .kind = of_packets,
                        .segment_bytes = static_cast<std::uint32_t>(segment_bytes)};
  std::vector<iovec> parts{{.iov_base = &header, .iov_len = sizeof header}};
  parts.insert(parts.end(), packets.begin(), packets.end());
  msghdr message{};
  message.msg_iov = parts.data();
  message.msg_iovlen = parts.size();
  return ::sendmsg(socket, &message, MSG_DONTWAIT | MSG_NOSIGNAL) >= 0 ||
         (errno != ECONNREFUSED && errno != ENOTCONN && errno != EPIPE);
}

}  // namespace softverbs::engine
