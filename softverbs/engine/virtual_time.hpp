// Time that a test moves by hand: whatever waits for a timer (retries, delayed packets, the
// connection manager) runs in the thread that advances the time, in the order of the timers. So
// minutes of retries pass in milliseconds, and the same way each time.
//
// Any thread may call any function; only one at a time advances.
#pragma once

#include <chrono>

#include <engine/clock.hpp>

namespace softverbs::engine {

/// Somebody with timers. Its own thread leaves them alone while the clock is stopped.
class time_source {
 public:
  /// Handles what has come in already; true if there was something.
  virtual bool settle() = 0;
  [[nodiscard]] virtual time_point next_due() = 0;
  /// Everything that is due now.
  virtual void run_due() = 0;
  /// The clock has been stopped or runs again: sleeping threads think anew.
  virtual void clock_changed() = 0;

 protected:
  ~time_source() = default;
};

/// In the order in which they were added, if timers of several are due at once.
void add_time_source(time_source& who);
/// Waits for a thread that is just advancing.
void remove_time_source(time_source& who);

void stop_time();
/// False if the clock is not stopped.
[[nodiscard]] bool advance_time(std::chrono::nanoseconds by);
void resume_time();

}  // namespace softverbs::engine
