// A port of a port space (RDMA_PS_TCP …) that belongs to one process of the host, as a bound TCP
// port does; and, while an id listens there, the handoff sockets that requests arrive in.
//
// Both are names in the abstract space of AF_UNIX, which two sockets cannot have at once.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include <engine/handoff_socket.hpp>
#include <net/address.hpp>
#include <rdma/rdma_cma.h>

namespace softverbs::cm {

[[nodiscard]] constexpr std::uint64_t service_id(unsigned port_space, std::uint16_t port) {
  return std::uint64_t{port_space} << 16U | port;
}

class port_reservation {
 public:
  struct port_spec {
    rdma_port_space space = RDMA_PS_TCP;
    net::address own;             ///< all zeros, or ::ffff:0.0.0.0: every address
    std::uint16_t port = 0;       ///< 0: any
    bool one_family_only = true;  ///< else every IPv6 address includes every IPv4 address
    bool shareable = false;       ///< ids that want to share it may bind it, too
  };
  /// Null with errno: EADDRINUSE if it is taken, EADDRNOTAVAIL if every address or one of them is.
  [[nodiscard]] static std::unique_ptr<port_reservation> take(const port_spec& wanted);
  port_reservation(const port_reservation&) = delete;
  port_reservation& operator=(const port_reservation&) = delete;
  ~port_reservation();

  /// Whether the process that has it would share it.
  [[nodiscard]] static bool is_shareable(const port_spec& wanted);

  [[nodiscard]] std::uint16_t port() const noexcept { return wanted_.port; }

  /// From now on requests arrive, and it is not shared any more. False with errno.
  [[nodiscard]] bool open_sockets();
  [[nodiscard]] const std::vector<std::unique_ptr<engine::handoff_socket>>& sockets()
      const noexcept {
    return sockets_;
  }

 private:
  port_reservation() = default;
  bool claim(const port_spec& wanted, std::uint16_t port);

  port_spec wanted_;
  std::vector<std::unique_ptr<engine::handoff_socket>> names_;
  std::unique_ptr<engine::handoff_socket> shared_name_;  ///< says that it can be shared
  std::vector<std::unique_ptr<engine::handoff_socket>> sockets_;
};

}  // namespace softverbs::cm
