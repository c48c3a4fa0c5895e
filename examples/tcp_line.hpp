#pragma once

// tcp_line: a TCP connection through which two programs tell each other how to connect with RDMA.

#include <chrono>
#include <cstdio>
#include <cstring>
#include <memory>
#include <stdexcept>
#include <string>
#include <system_error>
#include <type_traits>
#include <utility>

#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

class tcp_line {
 public:
  /// Waits on all interfaces for a client. Port "0" means any free one, which is printed.
  static tcp_line accept_one(const char* port, std::chrono::seconds patience) {
    const tcp_line listener(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    const int yes = 1;
    check(::setsockopt(listener.fd_, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes), "setsockopt");
    const sockaddr_in wanted = resolve(nullptr, port);
    check(::bind(listener.fd_, reinterpret_cast<const sockaddr*>(&wanted), sizeof wanted), "bind");
    check(::listen(listener.fd_, 1), "listen");
    sockaddr_in own{};
    socklen_t length = sizeof own;
    check(::getsockname(listener.fd_, reinterpret_cast<sockaddr*>(&own), &length), "getsockname");
    std::printf("listening on %d\n", ntohs(own.sin_port));
    std::fflush(stdout);
    tcp_line line(::accept4(listener.fd_, nullptr, nullptr, SOCK_CLOEXEC));
    line.limit(patience);
    return line;
  }

  static tcp_line connect_to(const char* host, const char* port, std::chrono::seconds patience) {
    tcp_line line(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    line.limit(patience);
    const sockaddr_in server = resolve(host, port);
    check(::connect(line.fd_, reinterpret_cast<const sockaddr*>(&server), sizeof server),
          "connect");
    return line;
  }

  tcp_line(tcp_line&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  tcp_line& operator=(tcp_line&&) = delete;
  ~tcp_line() {
    if (fd_ >= 0) ::close(fd_);
  }

  /// Sends this side's value and returns the other's, and so also waits until the other side is at
  /// the same point.
  template <class T>
    requires std::is_trivially_copyable_v<T>
  T exchange(const T& mine) {
    T theirs{};
    if (::send(fd_, &mine, sizeof mine, MSG_NOSIGNAL) != sizeof mine) fail("send");
    const ssize_t got = ::recv(fd_, &theirs, sizeof theirs, MSG_WAITALL);
    if (got < 0) fail("recv");
    if (got != sizeof theirs) throw std::runtime_error("the other side closed the connection");
    return theirs;
  }

 private:
  explicit tcp_line(int fd) : fd_(fd) { check(fd, "socket"); }

  /// Sets a timeout for every later connect, send and receive.
  void limit(std::chrono::seconds patience) const {
    const timeval time{.tv_sec = patience.count(), .tv_usec = 0};
    check(::setsockopt(fd_, SOL_SOCKET, SO_RCVTIMEO, &time, sizeof time), "setsockopt");
    check(::setsockopt(fd_, SOL_SOCKET, SO_SNDTIMEO, &time, sizeof time), "setsockopt");
  }

  static sockaddr_in resolve(const char* host, const char* port) {
    addrinfo wanted{};
    wanted.ai_flags = AI_PASSIVE | AI_NUMERICSERV;
    wanted.ai_family = AF_INET;
    wanted.ai_socktype = SOCK_STREAM;
    addrinfo* found = nullptr;
    if (const int rc = ::getaddrinfo(host, port, &wanted, &found); rc != 0) {
      throw std::runtime_error(std::string(host != nullptr ? host : "*") + ":" + port + ": " +
                               ::gai_strerror(rc));
    }
    const std::unique_ptr<addrinfo, void (*)(addrinfo*)> list(found, ::freeaddrinfo);
    sockaddr_in address{};
    std::memcpy(&address, list->ai_addr, sizeof address);
    return address;
  }

  [[noreturn]] static void fail(const char* call) {
    throw std::system_error(errno, std::generic_category(), call);
  }
  static void check(int rc, const char* call) {
    if (rc < 0) fail(call);
  }

  int fd_;
};
