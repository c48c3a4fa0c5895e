// The order in which the locks of the transport and the engine are taken, and mutexes that check it
// in debug builds.
//
// A thread takes a lock only while all that it holds come earlier in this list; two locks of one
// rank are never held together. A lock that is only tried cannot deadlock and is not checked, but
// counts as held. What is not in the list is a leaf (nothing is called with it held), or it belongs
// to the layers above and is taken before all of these: the connection manager's locks, and those
// that a user holds between two calls (the reader of an extended completion queue, a queue pair
// from ibv_wr_start to ibv_wr_complete).
//
// In builds with assertions a violation ends the process and says which lock was taken under which.
// With NDEBUG a ranked mutex is the plain one.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <optional>
#include <shared_mutex>

namespace softverbs {

enum class lock_rank : std::uint8_t {
  virtual_time,    ///< whoever moves the clock by hand runs everybody's timers
  receiving,       ///< packet_receiver: one thread at a time receives
  queue_pair,      ///< endpoint::mutex; never two at once, see endpoint.hpp
  srq_directory,   ///< the shared receive queues of XRC domains
  shared_receive,  ///< a shared receive queue
  memory,          ///< memory_keys: held while user memory is touched
  completions,     ///< a completion queue
  ports,           ///< port_leases: the UDP ports on a netdev
  observers,       ///< netdev_observers
  outgoing_rings,  ///< the rings to neighbours
  process_ports,   ///< the ports of the process, by number
  numbers,         ///< qpn_table: the queue pair numbers of a port
  ring_writer,     ///< one ring to a neighbour
  time_sources,    ///< the list of those who have timers
  timers,          ///< timer_queue
  inbox,           ///< an endpoint's packets from this process
  descriptors      ///< fork_registry: held across a fork
};

[[nodiscard]] const char* name_of(lock_rank rank) noexcept;

/// The ranks of the locks that a thread holds.
class held_locks {
 public:
  [[nodiscard]] static held_locks& of_thread() noexcept;

  /// The lock that must not be held when one of that rank is taken, if there is one.
  [[nodiscard]] constexpr std::optional<lock_rank> obstacle_to(lock_rank wanted) const noexcept {
    std::optional<lock_rank> worst;
    for (std::size_t i = 0; i < count_; ++i) {
      if (held_[i] >= wanted && (!worst || held_[i] > *worst)) worst = held_[i];
    }
    return worst;
  }
  constexpr void add(lock_rank taken) noexcept {
    if (count_ < held_.size()) held_[count_++] = taken;
  }
  /// The latest of that rank, wherever it is: locks need not be released in order.
  constexpr void remove(lock_rank released) noexcept {
    for (auto i = count_; i > 0; --i) {
      if (held_[i - 1] != released) continue;
      for (auto next = i; next < count_; ++next) held_[next - 1] = held_[next];
      --count_;
      return;
    }
  }
  /// In a child of a fork: what the parent's thread held is nobody's there.
  constexpr void clear() noexcept { count_ = 0; }

  /// Ends the process if a lock of that rank must not be taken now.
  void check(lock_rank wanted) const noexcept;

 private:
  std::array<lock_rank, 16> held_{};
  std::size_t count_ = 0;
};

/// A mutex that knows its place in the order.
template <lock_rank rank, class Mutex>
class checked_mutex {
 public:
  void lock() {
    held_locks::of_thread().check(rank);
    mutex_.lock();
    held_locks::of_thread().add(rank);
  }
  [[nodiscard]] bool try_lock() {
    if (!mutex_.try_lock()) return false;
    held_locks::of_thread().add(rank);
    return true;
  }
  void unlock() {
    held_locks::of_thread().remove(rank);
    mutex_.unlock();
  }
  void lock_shared()
    requires requires(Mutex& plain) { plain.lock_shared(); }
  {
    held_locks::of_thread().check(rank);
    mutex_.lock_shared();
    held_locks::of_thread().add(rank);
  }
  void unlock_shared()
    requires requires(Mutex& plain) { plain.unlock_shared(); }
  {
    held_locks::of_thread().remove(rank);
    mutex_.unlock_shared();
  }
  [[nodiscard]] Mutex& unchecked() noexcept { return mutex_; }

 private:
  Mutex mutex_;
};

#ifdef NDEBUG
template <lock_rank rank>
using ranked_mutex = std::mutex;
template <lock_rank rank>
using ranked_shared_mutex = std::shared_mutex;
#else
template <lock_rank rank>
using ranked_mutex = checked_mutex<rank, std::mutex>;
template <lock_rank rank>
using ranked_shared_mutex = checked_mutex<rank, std::shared_mutex>;
#endif

/// A lock that a user holds between two calls counts for nothing: what those calls may do with it
/// is not a matter of order.
template <class Mutex>
void lock_for_user(Mutex& mutex) {
  if constexpr (requires { mutex.unchecked(); }) {
    mutex.unchecked().lock();
  } else {
    mutex.lock();
  }
}
template <class Mutex>
void unlock_for_user(Mutex& mutex) {
  if constexpr (requires { mutex.unchecked(); }) {
    mutex.unchecked().unlock();
  } else {
    mutex.unlock();
  }
}

}  // namespace softverbs
