// Who wants to know what becomes of a netdev: the contexts that are open on it, which turn it into
// asynchronous events of their port.
//
// Owner: the netdev port. Any thread may call any function. Observers are told under the lock of
// the list, from whatever thread notices the change and with an endpoint's or the receiving lock
// held: an observer only notes what it is told.
#pragma once

#include <cstdint>
#include <mutex>
#include <vector>

#include <base/lock_order.hpp>

namespace softverbs::engine {

class netdev_observer {
 public:
  enum class change : std::uint8_t { up, down, addresses };
  virtual void netdev_changed(change what) = 0;

 protected:
  ~netdev_observer() = default;
};

class netdev_observers {
 public:
  void add(netdev_observer& who) {
    const std::lock_guard lock(mutex_);
    observers_.push_back(&who);
  }
  /// It is not told anything after this.
  void remove(netdev_observer& who) {
    const std::lock_guard lock(mutex_);
    std::erase(observers_, &who);
  }
  void tell(netdev_observer::change what) {
    const std::lock_guard lock(mutex_);
    for (auto* each : observers_) each->netdev_changed(what);
  }

 private:
  ranked_mutex<lock_rank::observers> mutex_;
  std::vector<netdev_observer*> observers_;
};

}  // namespace softverbs::engine
