#pragma once

// stream_connection: the blocking calls of a stream, or of its two halves, which share it: a
// device, its driver, and a waiter around both.
//
// Threads: all functions, any thread; the waiter's lock guards everything.
//
// Bytes that a write could not send yet (to gather more, or for lack of credits) are sent by the
// next call, whatever it is, or by deferred_flush.
//
// Lifetime: shared by the stream or the halves. The last owner lingers, see stream_options::linger,
// and then destroys it. In a forked child only its address is used: the object is left alone,
// because threads of the parent may hold its lock.

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include <rdmaxx/cm/connection.hpp>
#include <rdmaxx/core/fork.hpp>
#include <rdmaxx/core/result.hpp>
#include <rdmaxx/stream/protocol_engine.hpp>
#include <rdmaxx/stream/stream_options.hpp>
#include <rdmaxx/verbs/memory_region.hpp>

#include "stream/connected_device.hpp"
#include "stream/stream_driver.hpp"
#include "stream/stream_waiter.hpp"

namespace RDMAXX_NAMESPACE::detail {

class stream_connection {
 public:
  [[nodiscard]] static result<std::shared_ptr<stream_connection>> create(
      std::unique_ptr<connected_device> device, const stream_protocol::agreement& terms,
      const stream_options& options);
  stream_connection(const stream_connection&) = delete;
  stream_connection& operator=(const stream_connection&) = delete;

  using time_point = stream_driver::time_point;
  using timeout_type = std::optional<std::chrono::milliseconds>;

  /// At least one byte, or 0 at the end; nothing if it timed out. Does not wait if the deadline has
  /// passed.
  [[nodiscard]] result<std::optional<std::size_t>> read(std::span<const std::span<std::byte>> into,
                                                        time_point deadline);
  /// `until_all`: the caller calls again while something is left, so deferred_flush is not needed
  /// meanwhile.
  [[nodiscard]] result<std::optional<std::size_t>> write(
      std::span<const std::span<const std::byte>> from, time_point deadline, bool until_all);
  /// Writes all of it without a copy. The device no longer uses the memory when it returns.
  [[nodiscard]] result<void> write_registered(const memory_region& region,
                                              std::span<const std::byte> bytes,
                                              timeout_type timeout);
  /// The bytes to be read, in place; empty at the end.
  [[nodiscard]] result<std::span<const std::byte>> peek(timeout_type timeout);
  void consume(std::size_t bytes);
  /// Waits until everything written has arrived at the peer's device.
  [[nodiscard]] result<void> flush(timeout_type timeout);

  void shutdown_write();
  void shutdown_read();
  [[nodiscard]] result<void> close(std::chrono::milliseconds timeout);
  [[nodiscard]] result<void> close_reading(std::chrono::milliseconds timeout);
  [[nodiscard]] result<void> close_writing(std::chrono::milliseconds timeout);
  void abort();
  /// Ends reading: unread bytes are lost.
  void give_up_reading();

  /// Sends pending bytes. True if some are still unsent. For deferred_flush.
  [[nodiscard]] bool flush_deferred();

  [[nodiscard]] stream_protocol::engine_statistics statistics();
  [[nodiscard]] const cm::connection& connection() const noexcept { return device_->connection(); }
  /// Readable when something may have happened since a try_ call that returned nothing.
  [[nodiscard]] result<int> fd();
  [[nodiscard]] const stream_options& options() const noexcept { return options_; }

 private:
  using held_lock = stream_waiter::held_lock;
  struct ending;

  stream_connection(std::unique_ptr<connected_device> device,
                    stream_protocol::protocol_engine engine, const stream_options& options);
  ~stream_connection();

  [[nodiscard]] stream_protocol::protocol_engine& engine() noexcept { return driver_.engine(); }
  [[nodiscard]] stream_protocol::send_half& sending() noexcept { return engine().sending(); }
  [[nodiscard]] stream_protocol::receive_half& receiving() noexcept { return engine().receiving(); }
  [[nodiscard]] bool is_made_before_fork() const noexcept {
    return generation_ != fork_generation();
  }
  /// Call it after bytes were read or written.
  void post_due();
  /// Call it after other changes of the engine, for which another thread may be waiting.
  void progress_and_publish();
  void defer_unsent();
  void tell_of_abort(held_lock& held);
  /// Returns when the device no longer reads the caller's memory.
  void reclaim_memory(held_lock& held);
  void linger();
  /// The engine's failure as the user sees it.
  [[nodiscard]] error reported(const error& failure);
  /// "timed out after 2 s waiting for 10.0.0.7:7471 to read"
  [[nodiscard]] error timed_out(std::string_view operation, timeout_type timeout,
                                std::string_view peer_does, std::string hint = {}) const;
  void log_unread();

  const std::uint32_t generation_ = fork_generation();
  const stream_options options_;
  const std::unique_ptr<connected_device> device_;
  stream_driver driver_;
  stream_waiter waiter_;
  bool is_deferred_ = false;        ///< deferred_flush sends what is unsent
  bool has_been_deferred_ = false;  ///< it may refer to this
  bool user_knows_of_failure_ = false;
};

}  // namespace RDMAXX_NAMESPACE::detail
