#pragma once

// stream_waiter: blocking waits around a stream's driver, for any number of threads.
//
// One lock guards the driver; whoever calls the driver, or anything here, holds it. Whoever has to
// wait becomes the leader if there is none: it polls for a while, then arms the completion queues
// and sleeps on the driver's descriptors without the lock. Others wait for the leader, who tells
// them when something has happened, and hands over when it has got what it wanted.
//
// It also has the descriptor that a program may watch instead of waiting.
//
// Lifetime: borrows the driver, which outlives it. Nobody waits when it is destroyed.

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

namespace RDMAXX_NAMESPACE::detail {

class stream_waiter {
 public:
  using lock = std::unique_lock<std::mutex>;
  using time_point = library_clock::time_point;

  stream_waiter(stream_driver& driver, std::chrono::microseconds spin)
      : driver_(driver), spin_(spin) {}
  stream_waiter(const stream_waiter&) = delete;
  stream_waiter& operator=(const stream_waiter&) = delete;
  ~stream_waiter() = default;

  [[nodiscard]] lock acquire() { return lock(mutex_); }

  /// Progresses until `ready()`, but not beyond the deadline: then false. A deadline that has
  /// passed does not wait. Tells others of what the device does meanwhile; what the caller has
  /// changed before, it has published.
  template <class Ready>
  [[nodiscard]] bool wait(lock& held, time_point deadline, Ready ready,
                          interest what = interest::anything);

  /// Tells those who wait, and the descriptor, that a call has changed the engine's state.
  void publish();
  /// The same, but only if the driver has done something since the last time.
  void publish_activity();

  [[nodiscard]] bool has_leader() const noexcept { return has_leader_; }
  /// Nobody looks at the connection's events, neither a leader nor whoever watches the descriptor.
  [[nodiscard]] bool is_unwatched() const noexcept {
    return !has_leader_ && descriptor_ == nullptr;
  }

  /// Readable when something may have happened since a try that gave nothing.
  [[nodiscard]] result<int> fd();
  /// Whether a try to read, or to write, has given nothing: what comes later makes fd() readable,
  /// also if its event is taken by a call that was after something else.
  void reader_tries_again(bool got_nothing) noexcept { reader_tries_again_ = got_nothing; }
  void writer_tries_again(bool got_nothing) noexcept { writer_tries_again_ = got_nothing; }

 private:
  class leadership;
  class following;

  template <class Ready>
  void lead(lock& held, time_point deadline, Ready ready, interest what);
  template <class Ready>
  [[nodiscard]] bool spin(lock& held, time_point deadline, Ready ready, interest what);
  void follow(lock& held, time_point deadline, interest what);
  void sleep(lock& held, time_point deadline);
  void progress();

  stream_driver& driver_;
  const std::chrono::microseconds spin_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool has_leader_ = false;
  unsigned followers_ = 0;
  std::uint64_t published_ = 0;                   ///< the driver's activity that has been told of
  std::unique_ptr<joint_descriptor> descriptor_;  ///< once somebody has asked for it
  bool reader_tries_again_ = false;
  bool writer_tries_again_ = false;
};

/// Ends in a handover, also when something is thrown.
class stream_waiter::leadership {
 public:
  explicit leadership(stream_waiter& over) : over_(over) { over_.has_leader_ = true; }
  leadership(const leadership&) = delete;
  leadership& operator=(const leadership&) = delete;
  ~leadership() {
    over_.has_leader_ = false;
    if (over_.followers_ > 0) over_.changed_.notify_all();
  }

 private:
  stream_waiter& over_;
};

template <class Ready>
bool stream_waiter::wait(lock& held, time_point deadline, Ready ready, interest what) {
  progress();
  bool is_ready = ready();
  while (!is_ready && library_clock::now() < deadline) {
    if (has_leader_) {
      follow(held, deadline, what);
    } else {
      lead(held, deadline, ready, what);
    }
    is_ready = ready();
  }
  if (!is_ready) {
    if (!has_leader_) {
      driver_.take_completion_events();
      driver_.take_connection_events();
    }
    driver_.progress();
  }
  // What was waited for is not all that comes; and whoever does not wait may watch it instead.
  if (descriptor_ != nullptr) driver_.arm(interest::anything);
  if (!is_ready) is_ready = ready();
  publish_activity();  // also of what ready() did
  return is_ready;
}

template <class Ready>
bool stream_waiter::spin(lock& held, time_point deadline, Ready ready, interest what) {
  // In real time, whatever a test does with the deadlines' clock.
  using clock = std::chrono::steady_clock;
  using enum polling_phase::step;
  polling_phase phase(clock::now(),
                      std::min<library_clock::duration>(deadline - library_clock::now(), spin_),
                      what == interest::anything || driver_.receives_bulk());
  for (auto step = phase.next(clock::now()); step != over; step = phase.next(clock::now())) {
    held.unlock();  // others may have work meanwhile
    if (step == give_way) std::this_thread::yield();
    held.lock();
    progress();
    if (ready()) return true;
  }
  return false;
}

template <class Ready>
void stream_waiter::lead(lock& held, time_point deadline, Ready ready, interest what) {
  const leadership mine(*this);
  if (spin(held, deadline, ready, what)) return;
  driver_.arm(followers_ > 0 ? interest::anything : what);
  publish();
  if (!ready()) sleep(held, deadline);
  progress();
}

}  // namespace RDMAXX_NAMESPACE::detail
