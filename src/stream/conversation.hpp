#pragma once

// conversation: a connection with a protocol engine on it; what a stream, or its two halves, share.
//
// All functions may be called from any thread; one lock guards everything. Whoever has to wait
// becomes the leader if there is none: it polls for a while, then arms the completion queues, looks
// once more (what completed before they were armed raises no event), and sleeps on their channel
// without the lock. The sends are armed only while somebody waits for them. Others wait for the
// leader, who tells them when something has happened, and hands over when it has got what it
// wanted.
//
// What a write has left behind (to gather more, or for want of credits) is sent by the next call,
// whatever it is, or by the straggler service.

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <span>

#include <rdmaxx/cm/connection.hpp>
#include <rdmaxx/core/clock.hpp>
#include <rdmaxx/core/fork.hpp>
#include <rdmaxx/core/result.hpp>
#include <rdmaxx/stream/protocol_engine.hpp>
#include <rdmaxx/stream/stream_options.hpp>
#include <rdmaxx/verbs/completion_channel.hpp>
#include <rdmaxx/verbs/completion_queue.hpp>
#include <rdmaxx/verbs/memory_region.hpp>

#include "stream/keep_alive.hpp"

namespace rdmaxx::inline v0::detail {

using stream_clock = library_clock;

/// What a stream needs of a device. Its receives are posted, as a greeting promises.
struct stream_equipment {
  completion_channel channel;
  completion_queue send_cq;
  completion_queue recv_cq;
  owned_region send_memory;
  owned_region receive_memory;

  /// With a queue pair on the identifier.
  [[nodiscard]] static result<stream_equipment> for_id(const cm_id& id,
                                                       const stream_options& options);
};

class joint_descriptor;

class conversation : public std::enable_shared_from_this<conversation> {
 public:
  [[nodiscard]] static result<std::shared_ptr<conversation>> create(
      cm::connection connected, stream_equipment equipment, const stream_protocol::agreement& terms,
      const stream_options& options);

  conversation(cm::connection connected, stream_equipment equipment,
               stream_protocol::protocol_engine engine, const stream_options& options);
  conversation(const conversation&) = delete;
  conversation& operator=(const conversation&) = delete;
  ~conversation();

  using time_point = stream_clock::time_point;

  /// Something, or 0 at the end; nothing if the time is over. A deadline that has passed does not
  /// wait.
  [[nodiscard]] result<std::optional<std::size_t>> read(std::span<const std::span<std::byte>> into,
                                                        time_point deadline);
  /// `until_all`: the caller comes back as long as something is left, so that what is held back
  /// meanwhile needs nobody else.
  [[nodiscard]] result<std::optional<std::size_t>> write(
      std::span<const std::span<const std::byte>> from, time_point deadline, bool until_all);
  /// All of it, without a copy. The device is done with the memory when it returns.
  [[nodiscard]] result<void> write_registered(const memory_region& region,
                                              std::span<const std::byte> bytes,
                                              time_point deadline);
  /// What lies there to be read; empty at the end.
  [[nodiscard]] result<std::span<const std::byte>> peek(time_point deadline);
  void consume(std::size_t bytes);
  /// Until everything that was written has arrived at the peer's device.
  [[nodiscard]] result<void> flush(time_point deadline);

  void shutdown_write();
  void shutdown_read();
  [[nodiscard]] result<void> close(time_point deadline);
  [[nodiscard]] result<void> close_reading(time_point deadline);
  [[nodiscard]] result<void> close_writing(time_point deadline);
  void abort();
  /// The end of the last handle.
  void linger();
  /// The end of a reader: what it has not read is lost.
  void give_up_reading();

  /// Sends what was held back. True if something is still left.
  [[nodiscard]] bool push();
  /// It belongs to the parent of this process: nothing but its address may be used.
  [[nodiscard]] bool is_made_before_fork() const noexcept {
    return generation_ != fork_generation();
  }

  [[nodiscard]] stream_protocol::engine_statistics statistics();
  [[nodiscard]] const cm::connection& connection() const noexcept { return connection_; }
  /// Readable when something may have happened since a try that gave nothing.
  [[nodiscard]] result<int> fd();
  [[nodiscard]] const stream_options& options() const noexcept { return options_; }

 private:
  using lock = std::unique_lock<std::mutex>;
  class leadership;

  /// Those who only wait for the peer are not woken by their own sends.
  enum class awaited : std::uint8_t { arrival, anything };

  template <class Ready>
  [[nodiscard]] bool wait(lock& held, time_point deadline, Ready ready,
                          awaited what = awaited::anything);
  template <class Ready>
  [[nodiscard]] bool spin(lock& held, time_point deadline, Ready ready, awaited what);
  template <class Ready>
  void lead(lock& held, time_point deadline, Ready ready, awaited what);
  void sleep(lock& held, time_point deadline);
  void tell_of_abort(lock& held);
  /// Returns when the device does not read memory of the caller any more.
  void reclaim_memory(lock& held);
  void leave_to_stragglers();
  [[nodiscard]] std::size_t copy_in(std::span<const std::byte> bytes);
  [[nodiscard]] std::size_t copy_out(std::span<std::byte> into);

  /// Handles what has completed, then does what the engine wants.
  void progress();
  void poll_receives();
  void poll_sends();
  void advance();
  void post_receives();
  void post_sends();
  void end_connection();
  void handle_connection_events();
  void drain_events();
  void arm_receives();
  /// False if they were armed before: no need to look once more.
  [[nodiscard]] bool arm_sends();
  /// So that the descriptors tell of whatever comes next.
  void arm_all();
  void is_lost(const error& why);
  void look_for_life();
  void went_down(const work_completion& completion);
  [[nodiscard]] error failure_of(const error& told);
  void log_unread() const;

  const std::uint32_t generation_ = fork_generation();
  std::mutex mutex_;
  std::condition_variable changed_;
  bool has_leader_ = false;
  unsigned followers_ = 0;

  const stream_options options_;
  stream_equipment equipment_;  ///< outlives the queue pair, which the connection has
  cm::connection connection_;
  stream_protocol::protocol_engine engine_;
  std::uint32_t last_posted_;            ///< sequence of the newest send request
  std::uint32_t last_completed_;         ///< of the newest one that the device has done with
  std::size_t last_received_bytes_ = 0;  ///< of the newest frame
  std::unique_ptr<joint_descriptor> descriptor_;  ///< once somebody has asked for it
  std::optional<error> cause_;                    ///< of the connection's end
  bool is_down_ = false;
  bool has_disconnected_ = false;
  bool peer_has_disconnected_ = false;
  bool reader_tries_again_ = false;  ///< it got nothing, and may watch the descriptor
  bool writer_tries_again_ = false;
  bool receives_are_armed_ = false;  ///< an event is due, or waits in the channel
  bool sends_are_armed_ = false;
  bool is_pushed_ = false;           ///< the straggler service knows
  bool question_under_way_ = false;  ///< to the peer's device, whether it lives
  bool user_knows_ = false;          ///< that the stream has failed
  keep_alive keep_alive_;
};

}  // namespace rdmaxx::inline v0::detail
