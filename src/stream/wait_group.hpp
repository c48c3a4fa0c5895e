#pragma once

// wait_group: the lock of a stream, or of all streams that share completion queues, and which of
// the waiting threads leads: the leader polls the queues and sleeps on the descriptors for all of
// them.
//
// Members are public for the stream_waiters, which hold the lock whenever they use them.
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

  /// After polling a shared queue: makes the other streams progress for which something was found.
  virtual void tell_others() {}
  /// Wakes a waiting thread to lead if none does.
  void hand_over();

  std::mutex mutex;
  bool has_leader = false;
  bool wants_send_buffers = false;        ///< a thread waits for buffers of a shared pool
  unsigned watched_descriptors = 0;       ///< of stream_waiter::fd()
  std::vector<stream_waiter*> followers;  ///< once for each thread that waits
};

}  // namespace RDMAXX_NAMESPACE::detail
