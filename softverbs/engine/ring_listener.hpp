// The listening socket on which other processes of the host offer packet rings to one address and
// port of this process.
//
// Owner: the lease of the port. Immutable; connections are accepted under the receiving lock.
#pragma once

#include <cstdint>
#include <memory>
#include <utility>

#include <base/descriptor.hpp>
#include <net/address.hpp>

namespace softverbs::engine {

class ring_listener {
 public:
  /// Null with errno.
  [[nodiscard]] static std::unique_ptr<ring_listener> open(const net::address& own,
                                                           std::uint16_t port);

  [[nodiscard]] int fd() const noexcept { return fd_.get(); }
  [[nodiscard]] const net::address& own_address() const noexcept { return own_; }
  [[nodiscard]] std::uint16_t port() const noexcept { return port_; }

 private:
  ring_listener(descriptor fd, const net::address& own, std::uint16_t port)
      : fd_(std::move(fd)), own_(own), port_(port) {}

  descriptor fd_;
  net::address own_;
  std::uint16_t port_;
};

}  // namespace softverbs::engine
