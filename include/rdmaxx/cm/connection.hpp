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
// A peer's disconnection does not touch this side's queues: requests stay posted until this side
// has seen the event and disconnects, too. A loop that only polls a completion queue would wait
// forever. wait_completions() and wait_disconnected() watch both.
//
// Its identifier has an event channel of its own, so no other events mix with its own. Lifetime:
// move-only; the destructor ends the connection. Threads: as for its identifier and queue pair:
// posts from any thread, everything else by one thread at a time.

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

// Makes the types of this namespace printable like all others.
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
  /// On the connecting side: the private data of the acceptance, padded with zeros. On the
  /// accepting side: empty; the request has it.
  [[nodiscard]] std::span<const std::byte> peer_data() const noexcept { return peer_data_; }
  /// Readable when an event is pending: the connection, or the device, went down.
  [[nodiscard]] int fd() const noexcept { return id_.channel().fd(); }

  /// Ends the connection on both sides; does not wait.
  [[nodiscard]] result<void> disconnect() const { return id_.disconnect(); }
  /// Waits for completions of `cq` and returns the part of `into` that they fill; ETIMEDOUT if
  /// there are none in time. An empty result means that the connection is down, whichever side
  /// ended it; everything that had completed by then is returned first. Flushed requests may
  /// follow. The queue must have a channel on which no other thread waits; the queues that a
  /// connection creates have one. Polls for as long as `spin` says before it sleeps.
  [[nodiscard]] result<std::span<work_completion>> wait_completions(
      const completion_queue& cq, std::span<work_completion> into,
      std::optional<std::chrono::milliseconds> timeout = forever,
      std::chrono::microseconds spin = {});
  /// True once one of the two waits has found the connection down.
  [[nodiscard]] bool is_down() const noexcept { return down_; }
  /// Returns as soon as the connection is down, whichever side ended it; ETIMEDOUT if it is still
  /// up after the timeout. Answers the peer's disconnection. Outstanding requests complete as
  /// flushed.
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
