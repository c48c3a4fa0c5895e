// A multicast group that queue pairs of this process are attached to (10.5.2): a socket of its own,
// which is a member of the IP group. Every process of the host that is interested has one, and the
// kernel gives a copy of each packet to all of them.
//
// Owner: the station. All functions are called with its receiving lock held.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include <engine/endpoint.hpp>
#include <net/address.hpp>
#include <net/udp_socket.hpp>
#include <wire/icrc.hpp>

namespace softverbs::engine {

class multicast_group {
 public:
  /// Null with errno.
  [[nodiscard]] static std::unique_ptr<multicast_group> join(const net::address& group,
                                                             unsigned netdev_index);

  [[nodiscard]] int fd() const noexcept { return socket_->fd(); }
  /// False if it was attached already.
  bool attach(std::shared_ptr<endpoint> who);
  /// False if it was not attached.
  bool detach(const endpoint& who);
  [[nodiscard]] bool is_empty() const noexcept { return members_.empty(); }

  bool receive(net::receive_buffers& buffers) const;

 private:
  explicit multicast_group(std::unique_ptr<net::udp_socket> socket) : socket_(std::move(socket)) {}
  void deliver(const wire::flow& flow, std::span<const std::byte> datagram) const;

  std::unique_ptr<net::udp_socket> socket_;
  std::vector<std::shared_ptr<endpoint>> members_;
};

}  // namespace softverbs::engine
