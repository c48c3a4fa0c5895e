// A multicast group that queue pairs of this process are attached to (10.5.2): a socket of its own,
// which is a member of the IP group. Every process of the host that is interested has one, and the
// kernel gives a copy of each packet to all of them.
//
// Owner: the packet_receiver. All functions are called with its receiving lock held.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include <engine/endpoint.hpp>
#include <engine/fork_registry.hpp>
#include <engine/packet_source.hpp>
#include <net/address.hpp>
#include <net/udp_socket.hpp>

namespace softverbs::engine {

class multicast_group final : public packet_source {
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

  bool receive(receive_state& state, std::uint32_t events) override;

 private:
  explicit multicast_group(std::unique_ptr<net::udp_socket> socket)
      : socket_(std::move(socket)), socket_ends_(socket_->fd()) {}

  std::unique_ptr<net::udp_socket> socket_;
  closed_in_children socket_ends_;
  std::vector<std::shared_ptr<endpoint>> members_;
};

/// The groups of one netdev that queue pairs of this process are attached to.
class multicast_groups {
 public:
  explicit multicast_groups(source_watcher& sources) : sources_(sources) {}

  /// 0 or an errno; `added` tells whether it was not attached before.
  [[nodiscard]] int attach(const std::shared_ptr<endpoint>& who, const net::address& group,
                           unsigned netdev_index, bool& added);
  /// False if it was not attached. A group that nobody is attached to any more ends.
  [[nodiscard]] bool detach(const endpoint& who, const net::address& group, receive_state& state);

 private:
  source_watcher& sources_;
  std::map<net::address, std::unique_ptr<multicast_group>> groups_;
};

}  // namespace softverbs::engine
