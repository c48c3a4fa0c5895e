#pragma once

// stream_waiter: blocking waits around a stream's driver, for any number of threads.
//
// The lock of the wait_group guards the driver; callers of the driver, or of anything here, hold
// it. A thread that has to wait becomes the leader of the group if there is none: it polls for a
// while, then arms the completion queues and sleeps on the driver's descriptors without the lock.
// Other threads wait for the leader, which wakes them when something has happened, and hands over
// when it has what it waited for. Streams that share completion queues share the wait_group, too,
// and the leader makes all of them progress.
//
// It also has the descriptor that a program may watch instead of waiting.
//
// Lifetime: borrows the driver and the group, which outlive it. No thread waits when it is
// destroyed.

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <thread>

#include <rdmaxx/core/clock.hpp>
#include <rdmaxx/core/result.hpp>

#include "core/joint_descriptor.hpp"
#include "stream/polling_phase.hpp"
#include "stream/stream_driver.hpp"
#include "stream/wait_group.hpp"

namespace RDMAXX_NAMESPACE::detail {

class stream_waiter {
 public:
  class held_lock;
  using time_point = library_clock::time_point;

  stream_waiter(stream_driver& driver, wait_group& group, std::chrono::microseconds spin)
      : driver_(driver), group_(group), spin_(spin) {}
  stream_waiter(const stream_waiter&) = delete;
  stream_waiter& operator=(const stream_waiter&) = delete;
  ~stream_waiter();

  [[nodiscard]] held_lock acquire();

  /// Makes progress until `ready()`; false if the deadline passes first. Does not wait if the
  /// deadline has already passed. Notifies other threads of what the device does meanwhile; the
  /// caller must have published its own changes before.
  template <class Ready>
  [[nodiscard]] bool wait(held_lock& held, time_point deadline, Ready ready,
                          interest what = interest::anything);

  /// Tells waiting threads, and the descriptor, that a call has changed the engine's state.
  void publish();
  /// The same, but only if the driver has done something since the last time.
  void publish_activity();

  /// Handles completions that another stream's thread has found, and notifies its waiting threads.
  void take_news();
  /// Wakes waiting threads to check again.
  void wake() { changed_.notify_all(); }

  [[nodiscard]] bool has_leader() const noexcept { return group_.has_leader; }
  /// True if no leader and no watched descriptor covers the connection's events.
  [[nodiscard]] bool is_unwatched() const noexcept {
    return !group_.has_leader && descriptor_ == nullptr;
  }

  /// Readable when something may have happened since a try_ call that returned nothing.
  [[nodiscard]] result<int> fd();
  /// Records whether a try_read() or try_write() returned nothing: later changes then make fd()
  /// readable, even if another call fetches their event.
  void reader_tries_again(bool got_nothing) noexcept { reader_tries_again_ = got_nothing; }
  void writer_tries_again(bool got_nothing) noexcept { writer_tries_again_ = got_nothing; }

 private:
  friend struct wait_group;
  class leadership;
  class following;

  template <class Ready>
  void lead(held_lock& held, time_point deadline, Ready ready, interest what);
  template <class Ready>
  [[nodiscard]] bool spin(held_lock& held, time_point deadline, Ready ready, interest what);
  void follow(held_lock& held, time_point deadline, interest what);
  void sleep(held_lock& held, time_point deadline);
  void progress();
  void progress_all();
  /// What a leader arms for those it leads.
  [[nodiscard]] interest common_interest(interest own) const noexcept {
    return group_.followers.empty() && group_.watched_descriptors == 0 ? own : interest::anything;
  }

  stream_driver& driver_;
  wait_group& group_;
  const std::chrono::microseconds spin_;
  std::condition_variable changed_;
  unsigned followers_ = 0;
  std::uint64_t published_ = 0;                   ///< the driver's activity that has been published
  std::unique_ptr<joint_descriptor> descriptor_;  ///< created on first use
  bool reader_tries_again_ = false;
  bool writer_tries_again_ = false;
};

/// Holds the lock of the group. Before it releases the lock, it passes on what was found for other
/// streams.
class stream_waiter::held_lock : public std::unique_lock<std::mutex> {
 public:
  explicit held_lock(wait_group& group)
      : std::unique_lock<std::mutex>(group.mutex), group_(&group) {}
  held_lock(held_lock&&) = default;
  held_lock& operator=(held_lock&&) = delete;
  held_lock(const held_lock&) = delete;
  held_lock& operator=(const held_lock&) = delete;
  ~held_lock() {
    if (owns_lock()) group_->tell_others();
  }

 private:
  wait_group* group_;
};

inline stream_waiter::held_lock stream_waiter::acquire() { return held_lock(group_); }

/// Ends the leadership even if something is thrown; wait() hands over.
class stream_waiter::leadership {
 public:
  explicit leadership(wait_group& over) : over_(over) { over_.has_leader = true; }
  leadership(const leadership&) = delete;
  leadership& operator=(const leadership&) = delete;
  ~leadership() { over_.has_leader = false; }

 private:
  wait_group& over_;
};

template <class Ready>
bool stream_waiter::wait(held_lock& held, time_point deadline, Ready ready, interest what) {
  progress_all();
  bool is_ready = ready();
  while (!is_ready && library_clock::now() < deadline) {
    if (group_.has_leader) {
      follow(held, deadline, what);
    } else {
      lead(held, deadline, ready, what);
    }
    is_ready = ready();
  }
  if (!is_ready) {
    if (!group_.has_leader) {
      driver_.take_completion_events();
      driver_.take_connection_events();
    }
    driver_.progress();
  }
  // More may arrive than what was waited for, and a program may watch the descriptor instead of
  // waiting.
  if (group_.watched_descriptors != 0) driver_.arm(interest::anything);
  if (!is_ready) is_ready = ready();
  publish_activity();  // including what ready() did
  group_.hand_over();
  return is_ready;
}

template <class Ready>
bool stream_waiter::spin(held_lock& held, time_point deadline, Ready ready, interest what) {
  // In real time, whatever a test does with the deadlines' clock.
  using clock = std::chrono::steady_clock;
  using enum polling_phase::step;
  polling_phase phase(clock::now(),
                      std::min<library_clock::duration>(deadline - library_clock::now(), spin_),
                      what == interest::anything || driver_.receives_bulk());
  for (auto step = phase.next(clock::now()); step != over; step = phase.next(clock::now())) {
    held.unlock();  // other threads may need it meanwhile
    if (step == give_way) std::this_thread::yield();
    held.lock();
    progress_all();
    if (ready()) return true;
  }
  return false;
}

template <class Ready>
void stream_waiter::lead(held_lock& held, time_point deadline, Ready ready, interest what) {
  const leadership mine(group_);
  if (spin(held, deadline, ready, what)) return;
  driver_.arm(common_interest(what));
  publish();
  group_.tell_others();
  if (!ready()) sleep(held, deadline);
  progress_all();
}

}  // namespace RDMAXX_NAMESPACE::detail
