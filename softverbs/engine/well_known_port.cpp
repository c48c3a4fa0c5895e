#include <engine/well_known_port.hpp>

#include <array>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstring>
#include <thread>

#include <base/log.hpp>
#include <engine/queue_pair.hpp>
#include <engine/station.hpp>
#include <fmt/format.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>
#include <wire/icrc.hpp>
#include <wire/packet.hpp>

namespace softverbs::engine {
namespace {

using namespace std::chrono_literals;

constexpr auto patience = 500ms;
constexpr auto between_attempts = 5ms;
// Pointers to `watched` are told from pointers to sockets by the lowest bit, which alignment frees.
constexpr std::uintptr_t mark = 1;

/// In front of a datagram that is handed on.
struct handed_on_header {
  net::address source;
  std::uint16_t source_port = 0;
};

struct abstract_name {
  sockaddr_un name{};
  socklen_t bytes = 0;

  explicit abstract_name(std::string_view text) {
    name.sun_family = AF_UNIX;
    std::memcpy(name.sun_path + 1, text.data(), text.size());
    bytes = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + text.size());
  }
  [[nodiscard]] const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&name); }
};

abstract_name meeting_place(const net::address& own) {
  return abstract_name(fmt::format("softverbs/4791/{}", own.text()));
}

abstract_name process_of(const net::address& own, std::uint16_t port) {
  return abstract_name(fmt::format("softverbs/{}/{}", own.text(), port));
}

}  // namespace

well_known_port::well_known_port(station& owner, const net::address& own)
    : station_(owner), own_(own) {
  hand_on_ = ::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  const auto deadline = clock::now() + patience;
  while (!bind_first() && !join_others()) {
    if (failure_ != EADDRINUSE || clock::now() > deadline) {
      log(log_level::warning,
          "UDP port {} of {} is not to be had ({}): traffic within this host works, other hosts "
          "cannot reach this one",
          wire::roce_udp_port, own_.text(), std::strerror(failure_));
      return;
    }
    std::this_thread::sleep_for(between_attempts);
  }
  failure_ = 0;
  watch(socket_->fd(), watched::kind::packets);
  watch(listener_, watched::kind::newcomers);
}

well_known_port::~well_known_port() {
  for (const auto& each : watched_) {
    if (each->what == watched::kind::handed_on) ::close(each->fd);
  }
  if (listener_ >= 0) ::close(listener_);
  if (hand_on_ >= 0) ::close(hand_on_);
}

bool well_known_port::bind_first() {
  auto socket = net::udp_socket::bind(own_, wire::roce_udp_port, station_.device().index);
  failure_ = socket == nullptr ? errno : 0;
  if (socket == nullptr) return false;
  const int listener = ::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  const auto place = meeting_place(own_);
  if (::bind(listener, place.get(), place.bytes) != 0 || ::listen(listener, 64) != 0) {
    failure_ = errno;
    ::close(listener);
    return false;
  }
  socket_ = std::move(socket);
  listener_ = listener;
  return true;
}

bool well_known_port::join_others() {
  if (failure_ != EADDRINUSE) return false;
  const int fd = ::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
  const auto place = meeting_place(own_);
  const timeval limit{.tv_sec = 0, .tv_usec = 200'000};
  ::setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
  ::setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit);
  bool joined = false;
  if (::connect(fd, place.get(), place.bytes) == 0) {
    std::array<int, 2> fds{-1, -1};
    alignas(cmsghdr) std::array<std::byte, CMSG_SPACE(sizeof fds)> control{};
    char byte = 0;
    iovec part{.iov_base = &byte, .iov_len = 1};
    msghdr message{};
    message.msg_iov = &part;
    message.msg_iovlen = 1;
    message.msg_control = control.data();
    message.msg_controllen = control.size();
    if (::recvmsg(fd, &message, MSG_CMSG_CLOEXEC) == 1) {
      const cmsghdr* header = CMSG_FIRSTHDR(&message);
      if (header != nullptr && header->cmsg_type == SCM_RIGHTS &&
          header->cmsg_len == CMSG_LEN(sizeof fds)) {
        std::memcpy(fds.data(), CMSG_DATA(header), sizeof fds);
        socket_ = net::udp_socket::adopt(fds[0], own_, wire::roce_udp_port, station_.device().index);
        listener_ = fds[1];
        joined = true;
      }
    }
  }
  ::close(fd);
  return joined;
}

void well_known_port::watch(int fd, watched::kind what) {
  watched_.push_back(std::make_unique<watched>(watched{.port = this, .fd = fd, .what = what}));
  auto* const marked =
      reinterpret_cast<void*>(reinterpret_cast<std::uintptr_t>(watched_.back().get()) | mark);
  // The descriptor is shared: one process is woken for a packet, not all.
  epoll_event interest{.events = EPOLLIN | EPOLLEXCLUSIVE, .data = {.ptr = marked}};
  ::epoll_ctl(station_.sockets_epoll_, EPOLL_CTL_ADD, fd, &interest);
}

well_known_port::watched* well_known_port::from_watch(void* pointer) noexcept {
  const auto bits = reinterpret_cast<std::uintptr_t>(pointer);
  return (bits & mark) != 0 ? reinterpret_cast<watched*>(bits & ~mark) : nullptr;
}

void well_known_port::add_lease(std::uint16_t port) {
  if (failure_ != 0) return;
  const int fd = ::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  const auto name = process_of(own_, port);
  if (::bind(fd, name.get(), name.bytes) != 0) {
    log(log_level::error, "packets cannot be handed on to this process: {}", std::strerror(errno));
    ::close(fd);
    return;
  }
  const int bytes = static_cast<int>(settings::get().socket_buffer_bytes);
  ::setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &bytes, sizeof bytes);
  watch(fd, watched::kind::handed_on);
}

bool well_known_port::receive(const watched& source, net::receive_buffers& buffers) {
  switch (source.what) {
    case watched::kind::newcomers:
      greet_newcomer();
      return false;
    case watched::kind::handed_on:
      return receive_handed_on(source.fd);
    case watched::kind::packets:
      break;
  }
  const auto trains = buffers.receive(*socket_);
  for (const auto& train : trains) {
    for (auto rest = train.bytes; !rest.empty();) {
      const auto datagram = rest.first(std::min(rest.size(), train.segment_bytes));
      rest = rest.subspan(datagram.size());
      const auto packet = wire::decode(datagram);
      if (!packet) continue;
      const auto port = static_cast<std::uint16_t>(packet->header.destination_qpn >> 8);
      if (find_in_process(own_, packet->header.destination_qpn) != nullptr) {
        deliver(train.source, train.source_port, datagram);
      } else {
        hand_on(train, datagram, port);
      }
    }
  }
  return !trains.empty();
}

void well_known_port::hand_on(const net::receive_buffers::train& train,
                              std::span<const std::byte> datagram, std::uint16_t to_port) const {
  handed_on_header header{.source = train.source, .source_port = train.source_port};
  std::array<iovec, 2> parts{{{.iov_base = &header, .iov_len = sizeof header},
                              {.iov_base = const_cast<std::byte*>(datagram.data()),
                               .iov_len = datagram.size()}}};
  const auto name = process_of(own_, to_port);
  msghdr message{};
  message.msg_name = const_cast<sockaddr*>(name.get());
  message.msg_namelen = name.bytes;
  message.msg_iov = parts.data();
  message.msg_iovlen = parts.size();
  // Nobody there, or no room: lost, as on a network.
  [[maybe_unused]] const auto sent = ::sendmsg(hand_on_, &message, MSG_DONTWAIT | MSG_NOSIGNAL);
}

bool well_known_port::receive_handed_on(int fd) {
  std::array<std::byte, 16384> buffer;  // no RoCE packet is longer
  bool any = false;
  for (int i = 0; i < 64; ++i) {
    const auto bytes = ::recv(fd, buffer.data(), buffer.size(), MSG_DONTWAIT);
    if (bytes < static_cast<ssize_t>(sizeof(handed_on_header))) break;
    handed_on_header header;
    std::memcpy(&header, buffer.data(), sizeof header);
    any = true;
    deliver(header.source, header.source_port,
            std::span(buffer).subspan(sizeof header, static_cast<std::size_t>(bytes) - sizeof header));
  }
  return any;
}

void well_known_port::deliver(const net::address& source, std::uint16_t source_port,
                              std::span<const std::byte> datagram) {
  const wire::flow flow{.source = source,
                        .destination = own_,
                        .source_port = source_port,
                        .destination_port = wire::roce_udp_port};
  if (datagram.size() < wire::icrc_bytes || !wire::icrc_holds(flow, datagram)) return;
  const auto packet = wire::decode(datagram);
  if (!packet) return;
  const auto receiver = find_in_process(own_, packet->header.destination_qpn);
  if (receiver == nullptr) return;
  const std::lock_guard lock(receiver->mutex);
  if (receiver->owner == nullptr) return;
  receiver->owner->receive({.packet = *packet,
                            .source = source,
                            .destination = own_,
                            .source_port = source_port,
                            .came = inbound::way::well_known_port});
  receiver->owner->after_receiving(false);
}

void well_known_port::greet_newcomer() {
  const int fd = ::accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC);
  if (fd < 0) return;
  const std::array<int, 2> fds{socket_->fd(), listener_};
  alignas(cmsghdr) std::array<std::byte, CMSG_SPACE(sizeof fds)> control{};
  char byte = 0;
  iovec part{.iov_base = &byte, .iov_len = 1};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = control.data();
  message.msg_controllen = control.size();
  cmsghdr* header = CMSG_FIRSTHDR(&message);
  header->cmsg_level = SOL_SOCKET;
  header->cmsg_type = SCM_RIGHTS;
  header->cmsg_len = CMSG_LEN(sizeof fds);
  std::memcpy(CMSG_DATA(header), fds.data(), sizeof fds);
  [[maybe_unused]] const auto sent = ::sendmsg(fd, &message, MSG_DONTWAIT | MSG_NOSIGNAL);
  ::close(fd);
}

}  // namespace softverbs::engine
