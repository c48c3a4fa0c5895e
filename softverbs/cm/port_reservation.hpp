// A port of a port space (RDMA_PS_TCP …) that belongs to one process of the host, as a bound TCP
// port does, and the mailboxes that requests to it arrive in.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include <engine/mailbox.hpp>
#include <net/address.hpp>
#include <rdma/rdma_cma.h>

namespace softverbs::cm {

[[nodiscard]] constexpr std::uint64_t service_id(unsigned port_space, std::uint16_t port) {
  return std::uint64_t{port_space} << 16U | port;
}

class port_reservation {
 public:
  struct wish {
    rdma_port_space space = RDMA_PS_TCP;
    net::address own;             ///< all zeros, or ::ffff:0.0.0.0: every address
    std::uint16_t port = 0;       ///< 0: any
    bool one_family_only = true;  ///< else every IPv6 address includes every IPv4 address
  };
  /// Null with errno: EADDRINUSE if it is taken, also by one who holds it on every address.
  [[nodiscard]] static std::unique_ptr<port_reservation> take(const wish& wanted);
  port_reservation(const port_reservation&) = delete;
  port_reservation& operator=(const port_reservation&) = delete;
  ~port_reservation();

  [[nodiscard]] std::uint16_t port() const noexcept { return port_; }
  [[nodiscard]] const std::vector<std::unique_ptr<engine::mailbox>>& boxes() const noexcept {
    return boxes_;
  }

 private:
  port_reservation() = default;
  bool claim(const wish& wanted, std::uint16_t port);

  std::uint16_t port_ = 0;
  std::vector<std::unique_ptr<engine::mailbox>> boxes_;
};

}  // namespace softverbs::cm
