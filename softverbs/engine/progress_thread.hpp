// The thread that moves packets and timers of a netdev when no user's thread does.
//
// While users poll, they receive for themselves, and the thread stands by: it looks only now and
// then, the less often the longer they have polled. As soon as it finds that packets wait although
// users poll (they spin on memory, for instance), it goes back to waiting for every packet, for a
// while at least. After a second without packets or polls it says that the netdev is idle.
//
// Owner: the netdev port, which starts it and does the work. Any thread may call any function but
// stop(), which the owner calls before anything that the work needs goes away.
#pragma once

#include <atomic>
#include <cstdint>
#include <exception>
#include <mutex>
#include <thread>

#include <engine/clock.hpp>
#include <engine/packet_receiver.hpp>
#include <engine/private_descriptor.hpp>

namespace softverbs::engine {

/// What the thread does. All functions are called by it, with no lock held.
class progress_work {
 public:
  /// Runs the timers that are due; tells when the next one is.
  [[nodiscard]] virtual time_point run_timers() = 0;
  /// True if there were packets.
  virtual bool receive() = 0;
  /// Asked before it sleeps until a packet comes.
  [[nodiscard]] virtual packet_receiver::readiness prepare_for_sleep() = 0;
  /// Frozen, it waits for its timers alone.
  [[nodiscard]] virtual bool is_frozen() const noexcept = 0;
  virtual void has_become_idle() = 0;
  /// As a network does: what could not be handled is lost, and its sender repeats it.
  virtual void packets_are_lost(const std::exception& problem) const noexcept = 0;

 protected:
  ~progress_work() = default;
};

class progress_thread {
 public:
  /// `packets` is readable when there are some.
  progress_thread(progress_work& work, int packets);
  progress_thread(const progress_thread&) = delete;
  progress_thread& operator=(const progress_thread&) = delete;
  ~progress_thread() { stop(); }

  /// Throws as std::thread does.
  void start();
  void stop();

  /// A user's thread has looked for packets itself. Threads may count at once and lose a count:
  /// what matters is that there are some.
  void user_polls() noexcept {
    polls_.store(polls_.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
  }
  /// A user is about to sleep until a packet comes.
  void user_sleeps() const;
  /// Whether users move the packets.
  [[nodiscard]] bool stands_by() const noexcept { return standby_.load(std::memory_order_relaxed); }

  /// Wakes it if it would sleep beyond that time.
  void wake_before(time_point when) const;
  void wake() const;

 private:
  void run();
  [[nodiscard]] clock::wall::time_point time_to_wake(bool standby, clock::duration look_after);
  /// Until then, a packet, or wake(): true.
  bool sleep_until(clock::wall::time_point until);
  void set_standby(bool standby);

  progress_work& work_;
  int packets_;
  private_descriptor wake_fd_;
  private_descriptor epoll_;  ///< of the packets and wake_fd_
  std::atomic<std::uint64_t> polls_ = 0;
  std::atomic<bool> standby_ = false;
  std::atomic<bool> stopping_ = false;
  std::atomic<std::int64_t> sleeps_until_ = 0;  ///< ticks of the wall's clock; 0: awake
  std::thread thread_;
};

}  // namespace softverbs::engine
