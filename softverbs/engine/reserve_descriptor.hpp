// A descriptor that is kept for the moment in which the process has no other left: given up, it
// lets a listener accept one connection, and refuse it by closing it. Without it the connection
// would stay in the listener's queue, and whoever waits for the listener would spin.
//
// One thread at a time.
#pragma once

#include <engine/private_descriptor.hpp>

namespace softverbs::engine {

class reserve_descriptor {
 public:
  /// To be called while there are descriptors.
  void provide();
  /// False if not even that is possible now: do not listen for a while.
  [[nodiscard]] bool refuse_one(int listener);

 private:
  private_descriptor held_;
};

}  // namespace softverbs::engine
