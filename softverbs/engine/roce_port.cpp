#include <engine/roce_port.hpp>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstring>
#include <thread>
#include <utility>

#include <base/log.hpp>
#include <base/settings.hpp>
#include <engine/handoff_socket.hpp>
#include <engine/host_protocol.hpp>
#include <engine/management.hpp>
#include <engine/netdev_port.hpp>
#include <engine/packet_delivery.hpp>
#include <engine/passed_descriptors.hpp>
#include <engine/receive_steering.hpp>
#include <fmt/format.h>
#include <net/credentials.hpp>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>
#include <wire/icrc.hpp>
#include <wire/packet.hpp>

namespace softverbs::engine {
namespace {

using namespace std::chrono_literals;

constexpr auto patience = 500ms;
constexpr auto between_attempts = 5ms;
// How long no newcomers are accepted when there are no descriptors for them.
constexpr auto time_without_descriptors = 100ms;
constexpr int most_waiting_newcomers = 64;
// The port is shared by processes: one of them is woken for a packet, not all.
constexpr std::uint32_t shared_events = EPOLLIN | EPOLLEXCLUSIVE;

template <class T>
bool has_option(int fd, int option, T wanted) {
  T value{};
  socklen_t bytes = sizeof value;
  return ::getsockopt(fd, SOL_SOCKET, option, &value, &bytes) == 0 && value == wanted;
}

/// Whether it is a socket that newcomers can connect to.
bool is_listener(int fd) {
  return has_option(fd, SO_DOMAIN, AF_UNIX) &&
         has_option(fd, SO_TYPE, static_cast<int>(SOCK_SEQPACKET)) &&
         has_option(fd, SO_ACCEPTCONN, 1);
}

}  // namespace

roce_port::roce_port(netdev_port& owner, packet_sources& sources, const net::address& own,
                     std::span<const std::uint16_t> own_ports)
    : netdev_port_(owner), sources_(sources), own_(own) {
  const auto deadline = clock::wall::now() + patience;
  while (!bind_first() && !join_others()) {
    const bool late = clock::wall::now() > deadline;
    if (late && failure_ == EADDRINUSE) {
      auto socket = net::udp_socket::bind(own_, wire::roce_udp_port, netdev_port_.device().index);
      if (socket != nullptr) {
        share_with_nobody(std::move(socket), "somebody holds its name and does not answer");
        break;
      }
    }
    if (failure_ != EADDRINUSE || holder_ || late) {
      report_failure();
      return;
    }
    std::this_thread::sleep_for(between_attempts);
  }
  failure_ = 0;
  read(std::move(socket_), receive_steering::common_slot);
  if (listener_) {
    newcomers_.emplace(*this, listener_.get());
    sources_.add(listener_.get(), *newcomers_, shared_events);
  }
  for (const auto port : own_ports) {
    if (serve(port)) continue;
    failure_ = errno;
    report_failure();
    return;
  }
}

bool roce_port::serve(std::uint16_t own_port) {
  if (!pool_) return true;
  const auto slot = pool_->slot_of(own_port);
  if (std::ranges::find(slots_, slot) != slots_.end()) return true;
  auto socket = pool_->socket(slot);
  if (socket == nullptr) return false;
  // Nobody may have read it before.
  socket->set_receive_buffer(settings::get().socket_buffer_bytes);
  read(std::move(socket), slot);
  return true;
}

void roce_port::report_failure() const {
  const auto who =
      holder_ ? fmt::format("user {} holds it and is not among SOFTVERBS_TRUSTED_USERS", *holder_)
              : std::string(std::strerror(failure_));
  log(log_level::warning,
      "UDP port {} of {} is not to be had ({}): traffic within this host works, other hosts cannot "
      "reach this process",
      wire::roce_udp_port, own_.text(), who);
}

bool roce_port::bind_first() {
  auto socket = net::udp_socket::bind(own_, wire::roce_udp_port, netdev_port_.device().index);
  failure_ = socket == nullptr ? errno : 0;
  if (socket == nullptr) return false;
  descriptor listener(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  const auto place = host_protocol::roce_port_name(own_);
  if (!listener || ::bind(listener.get(), place.get(), place.bytes) != 0) {
    failure_ = errno;
    listener.reset();
    if (failure_ != EADDRINUSE || !connect_to_holder().is_stranger) return false;
    share_with_nobody(std::move(socket),
                      fmt::format("user {} holds its name", holder_.value_or(0)));
    return true;
  }
  pool_ = socket_pool::make(*socket);
  if (!pool_ && errno == ETOOMANYREFS) {
    listener.reset();
    share_with_nobody(std::move(socket),
                      "too many descriptors of this user are in flight, see RLIMIT_NOFILE");
    return true;
  }
  if (!pool_ || ::listen(listener.get(), most_waiting_newcomers) != 0) {
    failure_ = errno;
    pool_.reset();
    return false;
  }
  socket_ = std::move(socket);
  listener_ = std::move(listener);
  return true;
}

void roce_port::share_with_nobody(std::unique_ptr<net::udp_socket> socket,
                                  const std::string& reason) {
  log(log_level::warning,
      "UDP port {} of {} cannot be shared with other processes ({}): only this process is reached "
      "from other hosts",
      wire::roce_udp_port, own_.text(), reason);
  holder_.reset();
  socket_ = std::move(socket);
}

roce_port::holder_connection roce_port::connect_to_holder() {
  private_descriptor connection(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
  if (!connection) return {};
  const auto place = host_protocol::roce_port_name(own_);
  const timeval limit{.tv_sec = 0, .tv_usec = 200'000};
  ::setsockopt(connection.get(), SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
  ::setsockopt(connection.get(), SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit);
  if (::connect(connection.get(), place.get(), place.bytes) != 0) return {};
  const auto who = net::credentials_of_peer(connection.get());
  if (who && net::are_trusted(*who)) return {.connection = std::move(connection)};
  if (who) holder_ = who->user;
  return {.connection = {}, .is_stranger = true};
}

bool roce_port::join_others() {
  if (failure_ != EADDRINUSE) return false;
  const auto [connection, is_stranger] = connect_to_holder();
  if (!connection) return false;
  char byte = 0;
  iovec part{.iov_base = &byte, .iov_len = 1};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  const received_descriptors<> descriptors(message);
  if (::recvmsg(connection.get(), &message, MSG_CMSG_CLOEXEC) != 1) return false;
  auto fds = descriptors.take(message, host_protocol::descriptors_for_newcomers);
  private_descriptor queue(std::move(fds[0]));
  private_descriptor listener(std::move(fds[1]));
  if (!is_listener(listener.get())) return false;
  const auto index = netdev_port_.device().index;
  pool_ = socket_pool::adopt(std::move(queue), own_, wire::roce_udp_port, index);
  if (pool_) socket_ = pool_->socket(receive_steering::common_slot);
  if (socket_ == nullptr) {
    failure_ = errno;
    pool_.reset();
    return false;
  }
  listener_ = listener.release();
  return true;
}

void roce_port::read(std::unique_ptr<net::udp_socket> socket, unsigned slot) {
  const int fd = socket->fd();
  slots_.push_back(slot);
  read_.push_back(std::make_unique<read_socket>(*this, std::move(socket)));
  sources_.add(fd, *read_.back(), shared_events);
}

bool roce_port::read_socket::receive(receive_state& state, std::uint32_t /*events*/) {
  const auto trains = state.buffers.receive(*socket_);
  for (const auto& train : trains) port_.sort(train);
  if (!trains.empty()) state.busiest = this;
  return !trains.empty();
}

bool roce_port::newcomers::receive(receive_state& /*state*/, std::uint32_t /*events*/) {
  port_.greet_newcomer(*this);
  return false;
}

void roce_port::sort(const net::receive_buffers::train& train) {
  const auto qpn_at = [&](std::size_t at) {
    const auto rest = train.bytes.subspan(at);
    const auto packet = wire::decode(rest.first(std::min(rest.size(), train.segment_bytes)));
    return packet ? packet->header.destination_qpn : 0;
  };
  // Packets that follow each other to one process stay together.
  for (std::size_t begin = 0; begin < train.bytes.size();) {
    const auto qpn = qpn_at(begin);
    auto end = begin;
    do {
      end = std::min(end + train.segment_bytes, train.bytes.size());
    } while (end < train.bytes.size() && qpn_at(end) >> 8 == qpn >> 8);
    const auto packets = train.bytes.subspan(begin, end - begin);
    begin = end;
    if (qpn == wire::management_qpn) {
      dispatch_management(netdev_port_, flow_from(train), packets, train.segment_bytes);
    } else if (holds_port(own_, static_cast<std::uint16_t>(qpn >> 8))) {
      packet_delivery into({.flow = flow_from(train), .came = inbound::path::roce_port});
      into.deliver_train(packets, train.segment_bytes);
    } else if (hand_on(static_cast<std::uint16_t>(qpn >> 8), train, packets) &&
               packets.size() != train.bytes.size()) {
      keep_processes_apart();
    }
  }
}

// The rest of the train was for somebody else. What is handed on may be overtaken by packets that
// the kernel steers to the same process meanwhile.
void roce_port::keep_processes_apart() {
  if (!pool_ || !std::exchange(coalesces_, false)) return;
  log(log_level::info,
      "the kernel puts packets to several processes into one train at UDP port {} of {}: it is "
      "told "
      "to build no more trains there",
      wire::roce_udp_port, own_.text());
  pool_->stop_coalescing();
}

wire::flow roce_port::flow_from(const net::receive_buffers::train& train) const {
  return {.source = train.source,
          .destination = own_,
          .source_port = train.source_port,
          .destination_port = wire::roce_udp_port};
}

bool roce_port::hand_on(std::uint16_t port, const net::receive_buffers::train& train,
                        std::span<const std::byte> packets) {
  auto known = neighbours_.find(port);
  if (known == neighbours_.end()) {
    auto socket = handoff_socket::connect_to(own_, port);
    if (!socket) return false;  // nobody: lost
    known = neighbours_.emplace(port, std::move(socket)).first;
  }
  const iovec whole{.iov_base = const_cast<std::byte*>(packets.data()), .iov_len = packets.size()};
  if (handoff_socket::send(known->second.get(), flow_from(train), {&whole, 1}, train.segment_bytes))
    return true;
  neighbours_.erase(known);
  return false;
}

void roce_port::greet_newcomer(newcomers& source) {
  reserve_.provide();
  const private_descriptor connection(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC));
  if (!connection) {
    if (errno == EAGAIN || errno == EINTR || errno == ECONNABORTED) return;
    if (reserve_.refuse_one(listener_.get())) return;
    sources_.pause(listener_.get(), source, time_without_descriptors, shared_events);
    return;
  }
  const auto who = net::credentials_of_peer(connection.get());
  if (!who || !net::are_trusted(*who) || !pool_) return;
  char byte = 0;
  iovec part{.iov_base = &byte, .iov_len = 1};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  // A newcomer that has gone already needs nothing.
  static_cast<void>(
      send_descriptors(connection.get(), message, std::array{pool_->queue(), listener_.get()}));
}

}  // namespace softverbs::engine
