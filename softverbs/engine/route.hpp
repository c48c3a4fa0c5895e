// Where packets of a queue pair go and how: into the inbox of a queue pair of this process, through
// memory shared with another process of this host, or through a socket.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>

#include <engine/endpoint.hpp>
#include <engine/packet_ring.hpp>
#include <net/address.hpp>
#include <net/udp_socket.hpp>
#include <transport/send_work.hpp>
#include <wire/icrc.hpp>

namespace softverbs::engine {

class netdev_port;

struct route {
  netdev_port* place = nullptr;  ///< that they leave from
  wire::flow flow;
  std::shared_ptr<endpoint> in_process;     ///< the receiver, if it lives in this process
  std::shared_ptr<ring_writer> ring;        ///< else the memory shared with its process
  int handoff_fd = -1;                      ///< else a socket that hands over to its process
  const net::udp_socket* socket = nullptr;  ///< else the socket that sends
  sockaddr_storage to{};
  socklen_t to_bytes = 0;
  bool same_host = false;  ///< another softverbs process of this host, or this one
  bool with_icrc = true;

  /// Whether a packet of that payload would not be lost here already.
  [[nodiscard]] bool has_room(std::size_t payload) const {
    return !through_ring() || ring->has_room(payload + 64);
  }
  /// A ring that has ended, or was refused, leaves the socket.
  [[nodiscard]] bool through_ring() const noexcept { return ring != nullptr && !ring->is_closed(); }
};

/// From the queue pair of this process with that number to another one; null if there is no way.
[[nodiscard]] std::shared_ptr<route> find_route(netdev_port& place, std::uint32_t own_qpn,
                                                const transport::path_ends& ends,
                                                std::uint32_t qpn);

/// The last few routes of a queue pair that sends datagrams. Guarded by the queue pair's lock.
class recent_routes {
 public:
  [[nodiscard]] std::shared_ptr<route> find(netdev_port& place, std::uint32_t own_qpn,
                                            const transport::path_ends& ends, std::uint32_t qpn);

 private:
  struct entry {
    net::address source;
    net::address destination;
    std::uint32_t qpn = 0;
    std::shared_ptr<route> found;
  };
  std::array<entry, 8> entries_;
  unsigned next_ = 0;
};

}  // namespace softverbs::engine
