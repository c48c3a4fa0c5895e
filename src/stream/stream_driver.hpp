#pragma once

// stream_driver: moves a stream's bytes between its protocol engine and its device. It never waits
// and holds no lock: a waiter (stream_waiter for blocking calls) drives it.
//
//   driver.progress();                            // handles completions, posts what is due
//   while (!wanted()) {
//     driver.arm(interest::arrivals);             // progresses once more: what completed before
//     if (wanted()) break;                        // the queues were armed raises no event
//     driver.tend(now);                           // keep-alive: may post a probe, or give up
//     wait for driver.descriptors(), until driver.next_deadline();
//     driver.take_completion_events();            // if the first one is readable
//     driver.take_connection_events();            // if the second one is
//     driver.progress();
//   }
//
// Ownership: it owns the engine and borrows the device, which has the memory of the engine and
// outlives both.
//
// Threads: one call at a time, from any thread. A waiter holds a lock, or runs on one thread.
//
// A wait can be cancelled without clean-up: no call leaves anything half done, and armed queues
// stay armed. The exception is memory of the caller that the device still reads (write_in_place of
// the engine): to cancel that, call abort() and release_caller_memory(), and call progress() until
// has_caller_memory() is false, or call destroy_queue_pair().
//
// The peer's end. A connection is down when a completion, a post, an event of the connection
// manager or the keep-alive says so, whichever comes first (empty queues flush nothing). progress()
// then passes the engine what had arrived before, reports the loss to it, and disconnects. From
// then on nothing is posted, and callers see the engine's failure() or end; explain() adds the
// cause.
//
// Destroying a driver does nothing. With requests in flight, that is safe if the device is
// destroyed next: it destroys the queue pair before it frees the memory. Call disconnect() first to
// notify the peer.

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include <rdmaxx/core/clock.hpp>
#include <rdmaxx/core/error.hpp>
#include <rdmaxx/stream/protocol_engine.hpp>
#include <rdmaxx/stream/stream_options.hpp>

#include "stream/keep_alive.hpp"
#include "stream/stream_device.hpp"

namespace RDMAXX_NAMESPACE::detail {

/// What a caller waits for. Callers that only wait for the peer are not woken by their own sends.
enum class interest : std::uint8_t { arrivals, anything };

class stream_driver {
  using queue = stream_device::queue;

 public:
  using time_point = library_clock::time_point;

  stream_driver(stream_device& device, stream_protocol::protocol_engine engine,
                const stream_options& options);
  stream_driver(const stream_driver&) = delete;
  stream_driver& operator=(const stream_driver&) = delete;
  ~stream_driver() = default;

  /// Call post_due() after a change, so that the device acts on it.
  [[nodiscard]] stream_protocol::protocol_engine& engine() noexcept { return engine_; }
  [[nodiscard]] const stream_protocol::protocol_engine& engine() const noexcept { return engine_; }

  // --- moving ----------------------------------------------------------------------------------

  /// Handles completions, then calls post_due().
  void progress();
  /// Posts the receives and sends that are due, and disconnects when the stream has ended.
  void post_due();
  /// Copies what has arrived, as much as fits; the peer can refill buffers that have been read
  /// while the rest is copied. 0: nothing has arrived, or engine().receiving().check() says why.
  /// Call post_due() afterwards.
  [[nodiscard]] std::size_t read(std::span<std::byte> into);
  /// Copies what there is room for; the device sends one half of the buffers while the other is
  /// filled. Call post_due() afterwards.
  [[nodiscard]] std::size_t write(std::span<const std::byte> from);
  /// Handles only the completions that a write needs: cheaper than progress().
  void make_room();
  /// Grows whenever something has happened: a completion, a post, an event, a failure.
  [[nodiscard]] std::uint64_t activity() const noexcept { return activity_; }

  // --- waiting ---------------------------------------------------------------------------------

  /// Arms the queues, so that the descriptors report what is waited for, and makes progress.
  void arm(interest what);
  /// For another thread that starts to wait while one already sleeps. True if it had to be armed;
  /// then call progress(), too.
  [[nodiscard]] bool arm_sends() { return arm(queue::sends); }
  /// The descriptors of the completions and of the connection's events.
  [[nodiscard]] std::array<int, 2> descriptors() const {
    return {device_.completion_fd(), device_.connection_fd()};
  }
  void take_completion_events();
  void take_connection_events();
  /// Probes the peer's device if that is due, or gives up.
  void tend(time_point now);
  /// When to tend() again.
  [[nodiscard]] time_point next_deadline() const noexcept {
    return is_down_ ? time_point::max() : keep_alive_.wake_at();
  }
  /// The last frame was so large that more is likely to follow.
  [[nodiscard]] bool receives_bulk() const noexcept;

  // --- the end ---------------------------------------------------------------------------------

  [[nodiscard]] bool is_down() const noexcept { return is_down_; }
  [[nodiscard]] bool has_disconnected() const noexcept { return has_disconnected_; }
  /// The next post_due() notifies the peer. `cause`: what explain() says.
  void abort(std::optional<error> cause = std::nullopt);
  void disconnect();
  /// The failure that the engine reports, with the cause that only the driver knows.
  [[nodiscard]] error explain(const error& reported) const;

  /// Requests in flight may refer to memory of the caller.
  [[nodiscard]] bool has_caller_memory() const noexcept;
  /// Ends the connection, so that these requests are flushed.
  void release_caller_memory();
  /// For devices that do not flush.
  void destroy_queue_pair();

 private:
  void poll_receives();
  void poll_sends();
  void post_receives();
  void post_sends();
  void lose(const error& why);
  void lose(const work_completion& completion);
  /// True if it was not armed.
  [[nodiscard]] bool arm(queue which);

  stream_device& device_;
  stream_protocol::protocol_engine engine_;
  keep_alive keep_alive_;
  const std::chrono::milliseconds keep_alive_timeout_;
  const std::uint32_t send_buffers_;

  std::uint64_t activity_ = 0;
  std::uint32_t last_posted_ = ~0U;      ///< id of the newest send request
  std::uint32_t last_completed_ = ~0U;   ///< of the newest one that has completed
  std::size_t last_received_bytes_ = 0;  ///< of the newest frame
  bool is_probing_ = false;

  std::optional<error> cause_;  ///< of the connection's end
  bool is_down_ = false;
  bool has_disconnected_ = false;
  bool peer_has_disconnected_ = false;  ///< before this side did
};

}  // namespace RDMAXX_NAMESPACE::detail
