// UDP port 4791 of one address, which all softverbs processes of a network namespace share without
// a daemon and without privileges.
//
// The first process binds the port and a listening abstract AF_UNIX socket. Every other process of
// a trusted user connects to that, and is given both descriptors: from then on they are equals. The
// kernel gives each packet to one of them, whoever is awake; it handles the packet itself or hands
// it on, by the QPN alone, to the process whose port it names, through that process's mailbox. So
// nothing depends on one process: it may stop or die, and the port stays with the others.
//
// If somebody else has the port (the kernel's rxe, another program), packets from other hosts
// cannot reach this one: failure() says so, and traffic within the host is not affected.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <engine/private_descriptor.hpp>
#include <engine/reserve_descriptor.hpp>
#include <net/address.hpp>
#include <net/udp_socket.hpp>
#include <sys/types.h>
#include <wire/icrc.hpp>

namespace softverbs::engine {

class station;

class well_known_port {
 public:
  /// Waits a moment for another process that is just binding the port.
  well_known_port(station& owner, const net::address& own);
  well_known_port(const well_known_port&) = delete;
  well_known_port& operator=(const well_known_port&) = delete;
  ~well_known_port();

  [[nodiscard]] const net::address& own_address() const noexcept { return own_; }
  /// 0, or the errno with which the port could not be had.
  [[nodiscard]] int failure() const noexcept { return failure_; }
  /// One of its descriptors, as epoll names it.
  struct watched {
    well_known_port* port = nullptr;
    int fd = -1;
    enum class kind : std::uint8_t { packets, newcomers } what = kind::packets;
  };
  /// With the station's receiving lock held.
  bool receive(const watched& source, net::receive_buffers& buffers);

  /// Gives packets that came through the well-known port to the queue pairs of this process.
  static void deliver(const net::address& own, const net::address& source,
                      std::uint16_t source_port, std::span<const std::byte> packets,
                      std::size_t segment_bytes);

 private:
  bool bind_first();
  bool join_others();
  struct holder_connection {
    private_descriptor connection{};
    bool is_stranger = false;  ///< a user who is not trusted; see holder_
  };
  [[nodiscard]] holder_connection connect_to_holder();
  void report_failure() const;
  void watch(int fd, watched::kind what);
  void greet_newcomer(const watched& source);
  void sort(const net::receive_buffers::train& train);
  [[nodiscard]] wire::flow flow_from(const net::receive_buffers::train& train) const;
  void hand_on(std::uint16_t port, const net::receive_buffers::train& train,
               std::span<const std::byte> packets);
  static void deliver_one(const wire::flow& flow, std::span<const std::byte> datagram);

  station& station_;
  net::address own_;
  int failure_ = 0;
  std::optional<uid_t> holder_;  ///< another user, who keeps the port from us
  std::unique_ptr<net::udp_socket> socket_;
  int listener_ = -1;
  reserve_descriptor reserve_;
  std::map<std::uint16_t, int> neighbours_;  ///< sockets towards their mailboxes
  std::vector<std::unique_ptr<watched>> watched_;
};

}  // namespace softverbs::engine
