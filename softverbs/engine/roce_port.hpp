// UDP port 4791 of one address, which all softverbs processes of a network namespace share without
// a daemon and without privileges.
//
// The first process binds the port, as a pool of sockets, and a listening abstract AF_UNIX socket.
// Every other process of a trusted user connects to that, and is given both: from then on they are
// equals. The kernel steers the packets of a process, by the QPN, into the socket of its slot,
// which no other process reads: they keep their order. The socket of the common slot is read by
// all, whoever is awake. Whoever reads a packet of somebody else hands it on, by the QPN alone,
// through the handoff socket of that process. So nothing depends on one process: it may stop or
// die, and the port stays with the others.
//
// If somebody else has the port (the kernel's rxe, another program), packets from other hosts
// cannot reach this one: failure() says so, and traffic within the host is not affected.
//
// Owner: the port_leases of the netdev, under whose lock it is made and serve() is called. What
// comes is received under the receiving lock.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <base/descriptor.hpp>
#include <engine/fork_registry.hpp>
#include <engine/packet_source.hpp>
#include <engine/packet_sources.hpp>
#include <engine/private_descriptor.hpp>
#include <engine/reserve_descriptor.hpp>
#include <engine/socket_pool.hpp>
#include <net/address.hpp>
#include <net/udp_socket.hpp>
#include <sys/types.h>
#include <wire/icrc.hpp>

namespace softverbs::engine {

class netdev_port;

class roce_port {
 public:
  /// Serves the process's own ports. Waits a moment for another process that is just binding the
  /// port.
  roce_port(netdev_port& owner, packet_sources& sources, const net::address& own,
            std::span<const std::uint16_t> own_ports);
  roce_port(const roce_port&) = delete;
  roce_port& operator=(const roce_port&) = delete;

  [[nodiscard]] const net::address& own_address() const noexcept { return own_; }
  /// 0, or the errno with which the port could not be had.
  [[nodiscard]] int failure() const noexcept { return failure_; }
  /// Reads what comes for that port of the process, too; false with errno.
  [[nodiscard]] bool serve(std::uint16_t own_port);

 private:
  /// A socket of the pool that this process reads.
  class read_socket final : public packet_source {
   public:
    read_socket(roce_port& port, std::unique_ptr<net::udp_socket> socket)
        : port_(port), socket_(std::move(socket)), ends_(socket_->fd()) {}
    bool receive(receive_state& state, std::uint32_t events) override;

   private:
    roce_port& port_;
    std::unique_ptr<net::udp_socket> socket_;
    closed_in_children ends_;
  };
  /// The listening socket that newcomers connect to.
  class newcomers final : public packet_source {
   public:
    newcomers(roce_port& port, int listener) : port_(port), ends_(listener) {}
    bool receive(receive_state& state, std::uint32_t events) override;

   private:
    roce_port& port_;
    closed_in_children ends_;
  };

  bool bind_first();
  /// This process has the port and does without neighbours.
  void share_with_nobody(std::unique_ptr<net::udp_socket> socket, const std::string& reason);
  bool join_others();
  struct holder_connection {
    private_descriptor connection{};
    bool is_stranger = false;  ///< a user who is not trusted; see holder_
  };
  [[nodiscard]] holder_connection connect_to_holder();
  void report_failure() const;
  void read(std::unique_ptr<net::udp_socket> socket, unsigned slot);
  void greet_newcomer(newcomers& source);
  void sort(const net::receive_buffers::train& train);
  [[nodiscard]] wire::flow flow_from(const net::receive_buffers::train& train) const;
  /// False if nobody holds the port.
  bool hand_on(std::uint16_t port, const net::receive_buffers::train& train,
               std::span<const std::byte> packets);
  void keep_processes_apart();

  netdev_port& netdev_port_;
  packet_sources& sources_;
  net::address own_;
  int failure_ = 0;
  std::optional<uid_t> holder_;              ///< another user, who keeps the port from us
  std::unique_ptr<net::udp_socket> socket_;  ///< of the common slot, until it is watched
  std::optional<socket_pool> pool_;          ///< none: this process has the port for itself
  std::vector<unsigned> slots_;              ///< that are read
  bool coalesces_ = true;
  descriptor listener_;
  reserve_descriptor reserve_;
  std::map<std::uint16_t, descriptor> neighbours_;  ///< sockets towards their handoff sockets
  std::optional<newcomers> newcomers_;
  std::vector<std::unique_ptr<read_socket>> read_;
};

}  // namespace softverbs::engine
