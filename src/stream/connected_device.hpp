#pragma once

// connected_device: a stream_device with the connection and the memory of a stream: its own
// (verbs_stream_device) or those of a group (grouped_stream_device).
//
// Owns the connection. Its destructor ends it; data in flight is lost. Threads: one at a time.

#include <optional>
#include <span>
#include <utility>

#include <rdmaxx/cm/connection.hpp>
#include <rdmaxx/stream/engine_core.hpp>

#include "stream/stream_device.hpp"
#include "stream/stream_resources.hpp"
#include "stream/wait_group.hpp"

namespace RDMAXX_NAMESPACE::detail {

class connected_device : public stream_device {
 public:
  [[nodiscard]] const cm::connection& connection() const noexcept { return connection_; }
  [[nodiscard]] virtual const stream_resources& resources() const noexcept = 0;
  [[nodiscard]] virtual stream_protocol::engine_memory memory() noexcept = 0;
  /// The lock of this device, and the threads that wait.
  [[nodiscard]] virtual wait_group& waiting() noexcept = 0;
  /// From now on the waiter is notified of completions that others find for it. Called without the
  /// lock.
  [[nodiscard]] virtual result<void> attach(stream_waiter& waiter) = 0;
  /// Ends the connection, then returns the engine's buffers to the shared pools. Called without the
  /// lock.
  virtual void release(stream_protocol::protocol_engine& engine) = 0;

  void disconnect() override {
    if (!connection_.disconnect()) flush_requests();
  }
  void flush_requests() override { (void)connection_.qp().to_error(); }
  void destroy_queue_pair() override { (void)connection_.id().take_qp(); }
  [[nodiscard]] bool has_queue_pair() const override { return static_cast<bool>(connection_.qp()); }
  [[nodiscard]] int completion_fd() const override { return resources().channel.fd(); }
  [[nodiscard]] int connection_fd() const override { return connection_.fd(); }

 protected:
  explicit connected_device(cm::connection connected) : connection_(std::move(connected)) {}

  [[nodiscard]] static connection_event meaning_of(cm_event_type type) noexcept {
    if (type == cm_event_type::disconnected) return connection_event::disconnected;
    if (type == cm_event_type::device_removal) return connection_event::device_removed;
    return connection_event::other;
  }

  cm::connection connection_;
};

}  // namespace RDMAXX_NAMESPACE::detail
