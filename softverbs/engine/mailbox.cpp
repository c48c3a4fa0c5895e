#include <engine/mailbox.hpp>

#include <cerrno>
#include <cstring>
#include <vector>

#include <base/settings.hpp>
#include <engine/abstract_name.hpp>
#include <engine/descriptor_pair.hpp>
#include <fmt/format.h>
#include <sys/socket.h>
#include <unistd.h>

namespace softverbs::engine {
namespace {

/// In front of every letter.
struct envelope {
  net::address source{};
  net::address destination{};
  std::uint16_t source_port = 0;
  std::uint16_t kind = 0;
  std::uint32_t segment_bytes = 0;
};

abstract_name name_of(const net::address& address, std::uint16_t port) {
  return abstract_name(fmt::format("softverbs/{}/{}", address.text(), port));
}

}  // namespace

std::unique_ptr<mailbox> mailbox::open(const net::address& own, std::uint16_t port) {
  return open(name_of(own, port), own, port);
}

std::unique_ptr<mailbox> mailbox::open(const abstract_name& name, const net::address& own,
                                       std::uint16_t port) {
  const int fd = ::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (fd < 0) return nullptr;
  if (!net::ask_for_credentials(fd) || ::bind(fd, name.get(), name.bytes) != 0) {
    const int failure = errno;
    ::close(fd);
    errno = failure;
    return nullptr;
  }
  const auto bytes = static_cast<int>(settings::get().socket_buffer_bytes);
  ::setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &bytes, sizeof bytes);
  return std::unique_ptr<mailbox>(new mailbox(fd, own, port));
}

mailbox::~mailbox() { ::close(fd_); }

bool mailbox::take(std::span<std::byte> memory, letter& out) const {
  for (;;) {
    out = {};
    abstract_name sender;
    iovec part{.iov_base = memory.data(), .iov_len = memory.size()};
    msghdr message{};
    message.msg_name = &sender.name;
    message.msg_namelen = sizeof sender.name;
    message.msg_iov = &part;
    message.msg_iovlen = 1;
    const received_descriptors descriptors(message);
    const auto bytes = ::recvmsg(fd_, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
    if (bytes < 0) return false;
    const auto [memory_fd, bell_fd] = descriptors.take(message);
    out.memory_fd = memory_fd;
    out.bell_fd = bell_fd;
    sender.bytes = message.msg_namelen;
    const auto who = net::credentials_in(message);
    envelope cover;
    if (who && net::are_trusted(*who) && bytes >= static_cast<ssize_t>(sizeof cover)) {
      out.sender = *who;
      std::memcpy(&cover, memory.data(), sizeof cover);
      out.source = cover.source;
      out.destination = cover.destination;
      out.source_port = cover.source_port;
      out.what = static_cast<letter::kind>(cover.kind);
      out.packets = memory.subspan(sizeof cover, static_cast<std::size_t>(bytes) - sizeof cover);
      out.segment_bytes = cover.segment_bytes;
      if (out.what == letter::kind::packets && out.memory_fd < 0 && out.segment_bytes > 0)
        return true;
      // A ring speaks for an address and a port: only their holder can have sent it.
      const auto claimed = name_of(cover.source, cover.source_port);
      if (out.what == letter::kind::ring && out.bell_fd >= 0 && claimed == sender) return true;
    }
    if (out.memory_fd >= 0) ::close(out.memory_fd);
    if (out.bell_fd >= 0) ::close(out.bell_fd);
  }
}

bool mailbox::send_ring(const net::address& to, std::uint16_t to_port,
                        const ring_writer& ring) const {
  envelope cover{.source = own_,
                 .destination = to,
                 .source_port = port_,
                 .kind = static_cast<std::uint16_t>(letter::kind::ring)};
  iovec part{.iov_base = &cover, .iov_len = sizeof cover};
  auto name = name_of(to, to_port);
  msghdr message{};
  message.msg_name = &name.name;
  message.msg_namelen = name.bytes;
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  return send_descriptors(fd_, message, {ring.memory_fd(), ring.bell_fd()});
}

int mailbox::connect_to(const net::address& to, std::uint16_t to_port) {
  return connect_to(name_of(to, to_port));
}

int mailbox::connect_to(const abstract_name& name) {
  const int fd = ::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (fd < 0) return -1;
  const auto bytes = static_cast<int>(settings::get().socket_buffer_bytes);
  ::setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &bytes, sizeof bytes);
  if (::connect(fd, name.get(), name.bytes) == 0) return fd;
  ::close(fd);
  return -1;
}

bool mailbox::hand_on(int socket, const wire::flow& flow, std::span<const iovec> packets,
                      std::size_t segment_bytes) {
  envelope cover{.source = flow.source,
                 .destination = flow.destination,
                 .source_port = flow.source_port,
                 .kind = static_cast<std::uint16_t>(letter::kind::packets),
                 .segment_bytes = static_cast<std::uint32_t>(segment_bytes)};
  std::vector<iovec> parts{{.iov_base = &cover, .iov_len = sizeof cover}};
  parts.insert(parts.end(), packets.begin(), packets.end());
  msghdr message{};
  message.msg_iov = parts.data();
  message.msg_iovlen = parts.size();
  return ::sendmsg(socket, &message, MSG_DONTWAIT | MSG_NOSIGNAL) >= 0 ||
         (errno != ECONNREFUSED && errno != ENOTCONN && errno != EPIPE);
}

}  // namespace softverbs::engine
