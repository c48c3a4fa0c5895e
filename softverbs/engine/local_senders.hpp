// Whether a sender is on this host: asks the kernel only when the sender is another than the last.
//
// Owner: whoever receives; one thread at a time.
#pragma once

#include <net/address.hpp>
#include <net/netdev.hpp>

namespace softverbs::engine {

class local_senders {
 public:
  [[nodiscard]] bool contain(const net::address& sender) {
    if (sender.is_loopback()) return true;
    if (last_ != sender) {
      last_ = sender;
      last_is_local_ = net::is_local(sender);
    }
    return last_is_local_;
  }
  /// The host's addresses have changed.
  void forget() noexcept { last_ = {}; }

 private:
  net::address last_;
  bool last_is_local_ = false;
};

}  // namespace softverbs::engine
