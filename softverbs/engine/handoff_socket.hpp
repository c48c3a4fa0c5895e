// How processes of one host hand things to each other: an abstract AF_UNIX datagram socket for each
// address and port that a process holds. The name belongs to the one network namespace, nobody else
// can bind it, and it vanishes with its owner; the kernel tells the receiver the name of the
// sender.
//
// What is handed over are packets that reached UDP port 4791 in another process, or would have.
// Those of users who are not trusted are dropped.
//
// Owner: the lease of the port, or whoever provides a service of the connection manager. Any thread
// may send; one at a time takes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include <base/descriptor.hpp>
#include <engine/abstract_name.hpp>
#include <net/address.hpp>
#include <net/credentials.hpp>
#include <sys/uio.h>
#include <wire/icrc.hpp>

namespace softverbs::engine {

class handoff_socket {
 public:
  /// Null with errno.
  [[nodiscard]] static std::unique_ptr<handoff_socket> open(const net::address& own,
                                                            std::uint16_t port);
  /// Under another name than that of the address and port.
  [[nodiscard]] static std::unique_ptr<handoff_socket> open(const abstract_name& name,
                                                            const net::address& own,
                                                            std::uint16_t port);

  [[nodiscard]] int fd() const noexcept { return fd_.get(); }
  [[nodiscard]] const net::address& own_address() const noexcept { return own_; }
  [[nodiscard]] std::uint16_t port() const noexcept { return port_; }

  /// Packets of one sender that were handed over together, as they lie in `memory`.
  struct burst {
    net::credentials sender;  ///< by the kernel's word; source and destination are by the sender's
    net::address source;
    net::address destination;
    std::uint16_t source_port = 0;
    std::span<const std::byte> packets;  ///< one behind the other
    std::size_t segment_bytes = 0;       ///< of each packet but the last
  };
  static constexpr std::size_t burst_bytes = 65536 + 64;  // no train of packets is longer
  /// Whose packets are wanted; see net::are_trusted().
  enum class from : std::uint8_t { trusted_users, everybody };
  /// False if there is none, or nothing but what makes no sense or comes from others: that is
  /// dropped.
  [[nodiscard]] bool take(std::span<std::byte> memory, burst& out,
                          from whom = from::trusted_users) const;

  /// A socket that sends to the process that holds the address and port, if anybody does.
  /// One for each: what a process that has stopped does not read counts against the socket.
  [[nodiscard]] static descriptor connect_to(const net::address& to, std::uint16_t to_port);
  [[nodiscard]] static descriptor connect_to(const abstract_name& name);
  /// For packets that belong to the process behind `socket`, as they came through the RoCE
  /// port or would have. Lost if its box is full. False if nobody holds the port any more.
  [[nodiscard]] static bool send(int socket, const wire::flow& flow, std::span<const iovec> packets,
                                 std::size_t segment_bytes);

 private:
  handoff_socket(descriptor fd, const net::address& own, std::uint16_t port)
      : fd_(std::move(fd)), own_(own), port_(port) {}

  descriptor fd_;
  net::address own_;
  std::uint16_t port_;
};

}  // namespace softverbs::engine
