// The 256 queue pair numbers that belong to one UDP port, and the endpoints that hold them.
//
// A number is (UDP port << 8) | index. Numbers are given out in turn: one that was released is not
// used again before all the others were, so that late packets and a peer's connection manager do
// not take a new queue pair for its predecessor.
//
// Owner: a port_lease. Any thread may call any function; the lock is a leaf.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include <base/lock_order.hpp>
#include <engine/endpoint.hpp>

namespace softverbs::engine {

class qpn_table {
 public:
  static constexpr unsigned numbers = 256;

  /// The port is known once its first socket is bound.
  void set_port(std::uint16_t port) noexcept { port_ = port; }

  /// Null if all numbers are taken.
  [[nodiscard]] std::shared_ptr<endpoint> allocate();
  void release(std::uint32_t qpn);
  /// Null if nobody holds the number, or if it belongs to another port.
  [[nodiscard]] std::shared_ptr<endpoint> find(std::uint32_t qpn) const;
  [[nodiscard]] std::vector<std::shared_ptr<endpoint>> all() const;

 private:
  std::uint16_t port_ = 0;
  mutable ranked_mutex<lock_rank::numbers> mutex_;
  std::array<std::shared_ptr<endpoint>, numbers> endpoints_;
  unsigned next_ = 0;
  unsigned taken_ = 0;
};

}  // namespace softverbs::engine
