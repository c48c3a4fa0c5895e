// A scenario's surroundings: the addresses it may use, its sides, and what is known by name.
//
// Numbers that are different in each run are never written down; a queue pair number or a port that
// a side has made known is written as the name of its owner.
#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <map>
#include <mutex>
#include <string>

#include "names.hpp"
#include "side.hpp"
#include "socket_address.hpp"

namespace cm_oracle {

struct surroundings {
  socket_address own;      // of a network interface with an RDMA device
  socket_address own6;     // of the same interface
  socket_address nobodys;  // in the same subnet, and not in use
  socket_address routeless = socket_address::parse("192.0.2.1");  // TEST-NET-1
};

class scene {
 public:
  explicit scene(surroundings where) : where_(where) {}

  [[nodiscard]] socket_address own(std::uint16_t port = 0) const {
    return where_.own.with_port(port);
  }
  [[nodiscard]] socket_address own6(std::uint16_t port = 0) const {
    return where_.own6.with_port(port);
  }
  [[nodiscard]] socket_address nobodys(std::uint16_t port) const {
    return where_.nobodys.with_port(port);
  }
  [[nodiscard]] socket_address routeless(std::uint16_t port) const {
    return where_.routeless.with_port(port);
  }

  /// Sides live until the scene ends, and end in the opposite order.
  side& add(const std::string& name);

  void know_port(std::uint16_t port, const std::string& owner);
  void know_qp(std::uint32_t number, const std::string& owner);
  /// A number for a queue pair that does not exist. Nobody else uses it: the peer remembers numbers
  /// for a while, and refuses them.
  std::uint32_t invent_qp(const std::string& owner);

  [[nodiscard]] json describe_port(std::uint16_t port) const;
  [[nodiscard]] json describe_qp(std::uint32_t number) const;
  [[nodiscard]] json describe(const socket_address& address) const;
  [[nodiscard]] json describe(const ibv_gid& gid) const;
  [[nodiscard]] json describe(const ibv_ah_attr& attributes) const;

  [[nodiscard]] json result() const;

 private:
  surroundings where_;
  mutable std::mutex known_mutex_;  // the sides of blocking scenarios have a thread each
  std::map<std::uint16_t, std::string> ports_;
  std::map<std::uint32_t, std::string> qps_;
  std::uint32_t invented_ = 0;
  std::deque<side> sides_;
};

}  // namespace cm_oracle
