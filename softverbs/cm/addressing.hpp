// The addresses of an rdma_cm_id: its own end and the peer's, the device and the port that they
// need, and the options that the user has set. What users read of it (rdma_cm_id::verbs, pd,
// port_num, route) is kept up to date here.
//
// Owner: a cm_id. All functions are called with the agent's lock held; those for users return 0 or
// an errno.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>

#include <cm/local_device.hpp>
#include <cm/port_reservation.hpp>
#include <net/address.hpp>
#include <rdma/rdma_cma.h>
#include <wire/cm_message.hpp>

namespace softverbs::cm {

class addressing {
 public:
  enum class state : std::uint8_t { idle, bound, address_resolved, route_resolved, listening };

  struct ends {
    net::address own{};
    net::address peer{};
    std::uint16_t own_port = 0;
    std::uint16_t peer_port = 0;
  };

  struct options {
    bool reuse_address = false;
    bool one_family_only = false;
    std::uint8_t type_of_service = 0;
    std::optional<std::uint8_t> ack_timeout;  ///< as an exponent: 4.096 µs · 2^…
  };

  /// What users see is written to `id`, which contains this.
  explicit addressing(rdma_cm_id& id) : id_(id) {}

  // --- for users ---
  [[nodiscard]] int bind(const sockaddr* wanted);
  struct resolution {
    int error = 0;    ///< the call is refused
    int failure = 0;  ///< else: what the event says
  };
  [[nodiscard]] resolution resolve(const sockaddr* source, const sockaddr* destination);
  [[nodiscard]] int resolve_route();
  /// Binds the id if nobody has, and makes its port the id's alone.
  [[nodiscard]] int start_listening();
  [[nodiscard]] int set_option(int level, int option, std::span<const std::byte> value);

  /// Takes the ends of a request that has arrived.
  void adopt(local_device& device, const ends& both, const wire::cm_message& req);

  [[nodiscard]] state current_state() const noexcept { return state_; }
  [[nodiscard]] local_device* device() const noexcept { return device_; }
  [[nodiscard]] const ends& both() const noexcept { return ends_; }
  [[nodiscard]] const options& chosen() const noexcept { return options_; }
  /// The exponent of the local ACK timeout.
  [[nodiscard]] std::uint8_t ack_timeout() const;
  [[nodiscard]] ibv_mtu path_mtu() const noexcept { return mtu_; }
  [[nodiscard]] ibv_ah_attr path_to(const net::address& destination) const;
  /// Null before the id is bound, and if it shares a port that another one has reserved.
  [[nodiscard]] const port_reservation* reservation() const noexcept { return reservation_.get(); }

 private:
  /// Takes the device of the address.
  [[nodiscard]] int use_address(const net::address& own);
  void forget_device();
  [[nodiscard]] int reserve_port(bool to_listen);
  void publish_addresses();
  void publish_path();

  rdma_cm_id& id_;
  state state_ = state::idle;
  local_device* device_ = nullptr;
  ends ends_;
  unsigned scope_ = 0;  ///< the interface of a link-local address
  options options_;
  ibv_mtu mtu_ = IBV_MTU_1024;
  ibv_sa_path_rec path_{};
  std::unique_ptr<port_reservation> reservation_;
};

/// Whether it is an IPv4 or IPv6 address.
[[nodiscard]] bool is_ip(const sockaddr* address);
[[nodiscard]] ibv_gid gid_of(const net::address& address);

}  // namespace softverbs::cm
