#pragma once

// wait_group: the lock of a stream, or of all streams that share completion queues, and who of
// those that wait leads: polls the queues and sleeps on the descriptors for all of them.
//
// Members are public because they belong together with those of the stream_waiters, which hold the
// lock whenever they touch them.
//
// Lifetime: outlives the waiters. Threads: any, with the lock.

#include <mutex>
#include <vector>

namespace RDMAXX_NAMESPACE::detail {

class stream_waiter;

struct wait_group {
  wait_group() = default;
  wait_group(const wait_group&) = delete;
  wait_group& operator=(const wait_group&) = delete;
  virtual ~wait_group() = default;

  /// Whoever has polled a shared queue may have found what concerns others: makes them progress.
  virtual void tell_others() {}
  /// If nobody leads, one of those that wait is woken to do it.
  void hand_over();

  std::mutex mutex;
  bool has_leader = false;
  bool wants_send_buffers = false;        ///< somebody waits for those of a shared pool
  unsigned watched_descriptors = 0;       ///< of stream_waiter::fd()
  std::vector<stream_waiter*> followers;  ///< once for each thread that waits
};

}  // namespace RDMAXX_NAMESPACE::detail
