#pragma once

// cm::connection: an established connection: its identifier, queue pair and the peer's private
// data.
//
//   auto c = cm::connect("10.0.0.7:7471").value();
//   c.qp().post(send_wr{…}).value();
//   auto done = c.wait_completions(c.qp().send_cq(), wc, 5s).value();
//   c.disconnect().value();
//   c.wait_disconnected(5s).value();
//
// A peer that disconnects does not touch this side's queues: what is posted here stays posted until
// this side has seen the event and disconnects, too. A loop that only polls a completion queue
// waits for ever. wait_completions() and wait_disconnected() watch both.
//
// Its identifier has an event channel of its own, so that nobody else's events are mixed with its.
// Lifetime: move-only; its end ends the connection. Threads: those of its identifier and queue
// pair: posts from any thread, everything else by one thread at a time.

#include <chrono>
#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <rdmaxx/cm/cm_event.hpp>
#include <rdmaxx/cm/cm_id.hpp>
#include <rdmaxx/core/readiness.hpp>
#include <rdmaxx/core/result.hpp>
#include <rdmaxx/core/text.hpp>
#include <rdmaxx/verbs/completion_queue.hpp>
#include <rdmaxx/verbs/work_completion.hpp>

namespace RDMAXX_NAMESPACE::cm {

// Types of this namespace are printed like all others.
using v0::operator<<;

class connection {
 public:
  connection() noexcept = default;
  /// The private data of `established` becomes peer_data().
  connection(cm_id id, const cm_event& established);

  explicit operator bool() const noexcept { return static_cast<bool>(id_); }
  [[nodiscard]] const cm_id& id() const noexcept { return id_; }
  [[nodiscard]] const queue_pair& qp() const noexcept { return id_.qp(); }
  [[nodiscard]] const protection_domain& pd() const noexcept { return id_.pd(); }
  [[nodiscard]] socket_address local_address() const noexcept { return id_.local_address(); }
  [[nodiscard]] socket_address peer_address() const noexcept { return id_.peer_address(); }
  /// On the side that connected: what the other one accepted with, with zeros behind. On the side
  /// that accepted: empty; the request had it.
  [[nodiscard]] std::span<const std::byte> peer_data() const noexcept { return peer_data_; }
  /// Readable when an event waits: the connection went down, or the device.
  [[nodiscard]] int fd() const noexcept { return id_.channel().fd(); }

  /// Ends the connection on both sides; does not wait.
  [[nodiscard]] result<void> disconnect() const { return id_.disconnect(); }
  /// Completions of `cq` as soon as there are some, in a part of `into`; ETIMEDOUT if there are
  /// none in time. None means that the connection is down: whoever ended it, everything that had
  /// completed by then comes first. What is flushed after that may follow. The queue has a channel,
  /// as those have that a connection has made for itself, on which nobody else waits. Polls for as
  /// long as `spin` says before it sleeps.
  [[nodiscard]] result<std::span<work_completion>> wait_completions(
      const completion_queue& cq, std::span<work_completion> into,
      std::optional<std::chrono::milliseconds> timeout = forever,
      std::chrono::microseconds spin = {});
  /// True once one of the two waits has found the connection down.
  [[nodiscard]] bool is_down() const noexcept { return down_; }
  /// Returns as soon as the connection is down, whoever ended it; ETIMEDOUT if it still is up then.
  /// Answers the peer's disconnection. What still is in the queues completes as flushed.
  [[nodiscard]] result<void> wait_disconnected(
      std::optional<std::chrono::milliseconds> timeout = forever);

  /// Gives up the connection's identifier, with its channel and its queue pair.
  [[nodiscard]] cm_id release() && { return std::move(id_); }

 private:
  [[nodiscard]] result<void> handle_events();

  cm_id id_;
  std::vector<std::byte> peer_data_;
  bool down_ = false;
};
[[nodiscard]] std::string describe(const connection& connected);

}  // namespace RDMAXX_NAMESPACE::cm
