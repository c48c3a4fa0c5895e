// What the outside knows of a queue pair: its number, its lock, and the packets that other queue
// pairs of this process have sent to it. An endpoint outlives its queue pair for as long as a
// packet or a timer still refers to it.
//
// Lock order: an endpoint's `mutex` is never taken while another one is held. Packets to queue
// pairs of the same process are therefore put into the receiver's inbox while the sender's lock is
// held, and handled when this thread holds no lock any more, in deferred_work::run().
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include <base/lock_order.hpp>
#include <engine/clock.hpp>
#include <net/address.hpp>
#include <sys/uio.h>
#include <wire/packet.hpp>

namespace softverbs::engine {

class queue_pair;

/// A packet as it came in.
struct inbound {
  wire::packet packet{};
  net::address source{};
  net::address destination{};
  std::uint16_t source_port = 0;
  /// How it came: from this process, straight from another process of this host, or through the
  /// RoCE port.
  enum class path : std::uint8_t { in_process, same_host, roce_port } came = path::in_process;
};

class endpoint : public std::enable_shared_from_this<endpoint> {
 public:
  explicit endpoint(std::uint32_t number);

  const std::uint32_t qpn;
  const std::uint32_t order;                  ///< 1 for the first of the process
  ranked_mutex<lock_rank::queue_pair> mutex;  ///< the lock of the queue pair
  queue_pair* owner = nullptr;       ///< null when it has been destroyed; guarded by `mutex`
  std::atomic<bool> closed = false;  ///< the queue pair has been destroyed
  time_point timer_set_for = never;  ///< the next call of on_timer; guarded by `mutex`

  /// Puts a packet into the inbox and makes this thread handle it later. Any lock may be held.
  void enqueue(const wire::headers& header, std::span<const iovec> payload,
               const net::address& source, const net::address& destination);
  /// Handles what is in the inbox and what the queue pair has still to send. No lock may be held.
  void run();

 private:
  struct queued {
    wire::headers header;
    net::address source{};
    net::address destination{};
    std::size_t offset = 0;
    std::size_t bytes = 0;
  };
  struct inbox {
    std::vector<queued> packets;
    std::vector<std::byte> payloads;
  };

  /// Memory that a thread keeps from one inbox to the next, whosever they are: an idle queue pair
  /// has none.
  [[nodiscard]] static inbox& spare();

  ranked_mutex<lock_rank::inbox> inbox_mutex_;
  inbox inbox_;
};

/// Work that a thread has to do when it holds no lock any more.
namespace deferred_work {
void add(std::shared_ptr<endpoint> work);
void run();
/// From here to release() a user of this thread holds the lock of a queue pair between two calls:
/// nothing is run, and the thread does not receive.
void hold() noexcept;
void release() noexcept;
[[nodiscard]] bool is_held() noexcept;
}  // namespace deferred_work

/// Placed at the start of every entry into the library that may move packets.
class entry_scope {
 public:
  entry_scope() = default;
  entry_scope(const entry_scope&) = delete;
  entry_scope& operator=(const entry_scope&) = delete;
  ~entry_scope() { deferred_work::run(); }
};

}  // namespace softverbs::engine
