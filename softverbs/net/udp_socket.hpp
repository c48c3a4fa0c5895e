// A UDP socket bound to one of this host's addresses, which sends and receives trains of packets
// with one system call (UDP_SEGMENT and UDP_GRO).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include <base/descriptor.hpp>
#include <net/address.hpp>
#include <sys/uio.h>

namespace softverbs::net {

/// Descriptor of a socket; sending is safe from any thread, receiving from one at a time.
class udp_socket {
 public:
  /// Port 0: the kernel chooses. Nothing with errno (EADDRINUSE …).
  [[nodiscard]] static std::unique_ptr<udp_socket> bind(const address& own, std::uint16_t port,
                                                        unsigned netdev_index);
  /// One more socket of the same address and port, beside others of this user that share it
  /// (SO_REUSEPORT). Nothing with errno.
  [[nodiscard]] static std::unique_ptr<udp_socket> bind_beside(const address& own,
                                                               std::uint16_t port,
                                                               unsigned netdev_index);
  /// Member of a multicast group on that interface: receives what is sent to the group there, and
  /// so does every other such socket of the host. Nothing with errno.
  [[nodiscard]] static std::unique_ptr<udp_socket> join(const address& group, std::uint16_t port,
                                                        unsigned netdev_index);
  /// A socket that another process has bound and passed on.
  [[nodiscard]] static std::unique_ptr<udp_socket> adopt(descriptor fd, const address& own,
                                                         std::uint16_t port, unsigned netdev_index);

  [[nodiscard]] int fd() const noexcept { return fd_.get(); }
  [[nodiscard]] const address& own_address() const noexcept { return own_; }
  [[nodiscard]] std::uint16_t port() const noexcept { return port_; }
  [[nodiscard]] unsigned netdev_index() const noexcept { return netdev_index_; }

  /// Lets this user bind more sockets beside it, which was bound alone. False with errno.
  [[nodiscard]] bool share_port() const;
  void set_receive_buffer(std::size_t bytes) const;
  /// Whether the kernel may put packets together into a train (UDP_GRO).
  void coalesce(bool wanted) const;

  /// Sends `parts` as one packet, or, if segment_bytes is not 0, as packets of that size (the last
  /// may be shorter). Returns 0 or an errno; what the network loses it does not tell.
  int send(const sockaddr_storage& to, socklen_t to_bytes, std::span<const iovec> parts,
           std::size_t segment_bytes, std::uint8_t traffic_class = 0) const;

 private:
  [[nodiscard]] static std::unique_ptr<udp_socket> open(const address& own, unsigned netdev_index);
  [[nodiscard]] bool bind_to(std::uint16_t port);
  void send_to_groups_through_netdev() const;

  udp_socket(descriptor fd, const address& own, std::uint16_t port, unsigned netdev_index)
      : fd_(std::move(fd)), own_(own), port_(port), netdev_index_(netdev_index) {}

  descriptor fd_;
  address own_;
  std::uint16_t port_;
  unsigned netdev_index_;
};

/// The memory that packets are received into; one for each receiving thread.
class receive_buffers {
 public:
  static constexpr std::size_t datagrams = 8;

  /// What came with one recvmmsg element: packets of segment_bytes each, the last may be shorter.
  struct train {
    std::span<const std::byte> bytes;
    std::size_t segment_bytes = 0;
    address source;
    std::uint16_t source_port = 0;
  };

  receive_buffers();
  /// Never waits. Empty if there is nothing.
  [[nodiscard]] std::span<const train> receive(const udp_socket& socket);

 private:
  static constexpr std::size_t datagram_bytes = 65536;
  static constexpr std::size_t control_bytes = 64;
  std::vector<std::byte> memory_;
  std::array<iovec, datagrams> parts_{};
  std::array<sockaddr_storage, datagrams> sources_{};
  std::array<std::array<std::byte, control_bytes>, datagrams> control_{};
  std::array<train, datagrams> trains_{};
};

}  // namespace softverbs::net
