// Tells when interfaces of this host (of this network namespace) go up or down, or gain or lose an
// address.
#pragma once

#include <base/descriptor.hpp>

namespace softverbs::net {

/// One thread at a time may call drain().
class change_watch {
 public:
  change_watch();

  /// Readable when something has changed; -1 where the kernel does not tell.
  [[nodiscard]] int fd() const noexcept { return fd_.get(); }
  /// Takes what has been told so far; what it means is to be asked anew.
  void drain() const;

 private:
  descriptor fd_;
};

}  // namespace softverbs::net
