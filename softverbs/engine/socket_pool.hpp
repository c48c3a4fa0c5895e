// The sockets of one UDP port of one address, which many processes share: the kernel steers each
// packet into one of them (receive_steering.hpp).
//
// The kernel numbers the sockets of a port by the order in which they were bound, and closing one
// gives its number to another. So none may be closed while the port is in use, whoever dies; but no
// process should have to hold them all. They are parked in the receive queue of an AF_UNIX socket,
// with a message that nobody takes out: who holds the queue looks at the message (MSG_PEEK), which
// duplicates the descriptors, and keeps those it reads. The kernel closes the sockets when the last
// process has closed the queue. While they lie there, they count as descriptors in flight of the
// user who made the pool (RLIMIT_NOFILE).
//
// A pool of a single socket, where the kernel cannot steer or descriptors are scarce, works, too:
// everybody reads everything.
//
// Owner: the RoCE port. Any thread may call any function.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include <engine/private_descriptor.hpp>
#include <net/address.hpp>
#include <net/udp_socket.hpp>

namespace softverbs::engine {

class socket_pool {
 public:
  /// Around a socket that has the port for itself; it becomes that of the common slot. Nothing with
  /// errno: it still has the port for itself.
  [[nodiscard]] static std::optional<socket_pool> make(const net::udp_socket& first);
  /// What another process has passed on, checked as foreign: nothing if it is no such pool, or if
  /// this process cannot have so many descriptors for a moment; with errno.
  [[nodiscard]] static std::optional<socket_pool> adopt(private_descriptor queue,
                                                        const net::address& own, std::uint16_t port,
                                                        unsigned netdev_index);

  /// To be passed on to other processes.
  [[nodiscard]] int queue() const noexcept { return queue_.get(); }
  /// Where packets to queue pairs of a process's port come.
  [[nodiscard]] unsigned slot_of(std::uint16_t own_port) const noexcept;
  /// The socket of a slot; null with errno.
  [[nodiscard]] std::unique_ptr<net::udp_socket> socket(unsigned slot) const;
  /// From now on no socket of the pool receives trains: the kernel builds them by addresses and
  /// ports alone, and steers a whole train by its first packet.
  void stop_coalescing() const;

 private:
  socket_pool(private_descriptor queue, std::size_t size, const net::address& own,
              std::uint16_t port, unsigned netdev_index)
      : queue_(std::move(queue)), size_(size), own_(own), port_(port), netdev_(netdev_index) {}

  private_descriptor queue_;
  std::size_t size_;
  net::address own_;
  std::uint16_t port_;
  unsigned netdev_;
};

}  // namespace softverbs::engine
