// The transports of stream_exchange, all with the same few functions: an rdmaxx stream, an rsocket
// of librdmacm, a TCP socket. Everything blocks, and a failure ends the program.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <utility>

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <rdma/rsocket.h>
#include <sys/socket.h>
#include <unistd.h>

#include <rdmaxx/rdmaxx.hpp>

#include "timing.hpp"

namespace stream_transports {

using benchmark_timing::need;

/// With default options.
class rdmaxx_stream {
 public:
  class listener {
   public:
    explicit listener(const std::string& address)
        : waiting_(rdmaxx::stream_listener::listen(address + ":0").value()) {}
    [[nodiscard]] std::uint16_t port() const { return waiting_.local_address().port(); }
    [[nodiscard]] rdmaxx_stream accept() const { return rdmaxx_stream(waiting_.accept().value()); }

   private:
    rdmaxx::stream_listener waiting_;
  };

  static rdmaxx_stream connect(const std::string& address, std::uint16_t port) {
    return rdmaxx_stream(rdmaxx::stream::connect(address + ":" + std::to_string(port)).value());
  }

  void write_all(std::span<const std::byte> bytes) { stream_.write_all(bytes).value(); }
  void read_exactly(std::span<std::byte> into) { stream_.read_exactly(into).value(); }
  void close() { stream_.close().value(); }
  [[nodiscard]] std::string statistics() const { return describe(stream_.statistics()); }

 private:
  explicit rdmaxx_stream(rdmaxx::stream connected) : stream_(std::move(connected)) {}

  rdmaxx::stream stream_;
};

struct tcp_calls {
  static constexpr auto socket = ::socket;
  static constexpr auto bind = ::bind;
  static constexpr auto listen = ::listen;
  static constexpr auto accept = ::accept;
  static constexpr auto connect = ::connect;
  static constexpr auto getsockname = ::getsockname;
  static constexpr auto setsockopt = ::setsockopt;
  static constexpr auto send = ::send;
  static constexpr auto recv = ::recv;
  static constexpr auto shutdown = ::shutdown;
  static constexpr auto close = ::close;
};

struct rsocket_calls {
  static constexpr auto socket = ::rsocket;
  static constexpr auto bind = ::rbind;
  static constexpr auto listen = ::rlisten;
  static constexpr auto accept = ::raccept;
  static constexpr auto connect = ::rconnect;
  static constexpr auto getsockname = ::rgetsockname;
  static constexpr auto setsockopt = ::rsetsockopt;
  static constexpr auto send = ::rsend;
  static constexpr auto recv = ::rrecv;
  static constexpr auto shutdown = ::rshutdown;
  static constexpr auto close = ::rclose;
};

/// TCP and rsockets differ only in the names of their functions.
template <class Calls>
class socket_stream {
 public:
  class listener {
   public:
    explicit listener(const std::string& address) : waiting_(made()) {
      const auto place = at(address, 0);
      need(Calls::bind(waiting_, reinterpret_cast<const sockaddr*>(&place), sizeof place) == 0,
           "bind");
      need(Calls::listen(waiting_, 1) == 0, "listen");
    }
    [[nodiscard]] std::uint16_t port() const {
      sockaddr_in place{};
      socklen_t length = sizeof place;
      need(Calls::getsockname(waiting_, reinterpret_cast<sockaddr*>(&place), &length) == 0,
           "getsockname");
      return ntohs(place.sin_port);
    }
    [[nodiscard]] socket_stream accept() const {
      const int accepted = Calls::accept(waiting_, nullptr, nullptr);
      need(accepted >= 0, "accept");
      return socket_stream(accepted);
    }

   private:
    int waiting_;
  };

  static socket_stream connect(const std::string& address, std::uint16_t port) {
    const int connected = made();
    const auto place = at(address, port);
    need(Calls::connect(connected, reinterpret_cast<const sockaddr*>(&place), sizeof place) == 0,
         "connect");
    return socket_stream(connected);
  }

  void write_all(std::span<const std::byte> bytes) {
    while (!bytes.empty()) {
      const auto sent = Calls::send(socket_, bytes.data(), bytes.size(), 0);
      need(sent > 0, "send");
      bytes = bytes.subspan(static_cast<std::size_t>(sent));
    }
  }
  void read_exactly(std::span<std::byte> into) {
    while (!into.empty()) {
      const auto received = Calls::recv(socket_, into.data(), into.size(), 0);
      need(received > 0, "recv");
      into = into.subspan(static_cast<std::size_t>(received));
    }
  }
  void close() {
    Calls::shutdown(socket_, SHUT_RDWR);  // the other side may have been faster
    Calls::close(socket_);
  }
  [[nodiscard]] std::string statistics() const { return "none"; }

 private:
  explicit socket_stream(int connected) : socket_(connected) {
    const int yes = 1;
    need(Calls::setsockopt(socket_, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes) == 0, "setsockopt");
  }

  static int made() {
    const int made = Calls::socket(AF_INET, SOCK_STREAM, 0);
    need(made >= 0, "socket");
    return made;
  }
  static sockaddr_in at(const std::string& address, std::uint16_t port) {
    sockaddr_in place{};
    place.sin_family = AF_INET;
    place.sin_port = htons(port);
    need(inet_pton(AF_INET, address.c_str(), &place.sin_addr) == 1, address.c_str());
    return place;
  }

  int socket_;
};

using tcp_stream = socket_stream<tcp_calls>;
using rsocket_stream = socket_stream<rsocket_calls>;

}  // namespace stream_transports
