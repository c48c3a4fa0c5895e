// The slot of UDP port 4791 that a process has for itself on one netdev (receive_steering.hpp): the
// claim is a name that only one process of the network namespace can hold, and that vanishes with
// it. The slot follows from the process's own UDP port, so ports are chosen to fit: the first one
// claims its slot, and all further ones share it.
//
// When every slot is taken, a process shares one: both read its socket and hand each other what is
// not theirs, and the order of packets is not kept.
//
// Owner: the netdev port. One thread at a time.
#pragma once

#include <cstdint>

#include <engine/private_descriptor.hpp>

namespace softverbs::engine {

class slot_claim {
 public:
  explicit slot_claim(unsigned netdev_index) : netdev_(netdev_index) {}

  /// Whether the process has the port's slot for itself: claims it if nothing is claimed as yet.
  [[nodiscard]] bool covers(std::uint16_t port);
  /// The port to try next: another one of the slot; 0, which leaves it to the kernel, as long as
  /// nothing is claimed and when there is none.
  [[nodiscard]] std::uint16_t next_port() noexcept;

 private:
  unsigned netdev_;
  std::uint16_t last_port_ = 0;  ///< the one that claimed, or was tried since
  private_descriptor held_;
};

}  // namespace softverbs::engine
