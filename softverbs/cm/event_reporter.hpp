// The events of one rdma_cm_id: making them, filling them in, the channel that they go to, and the
// count of those that the user has not acknowledged.
//
// Owner: a cm_id. All functions are called with the agent's lock held, unless they say otherwise.
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include <cm/event_channel.hpp>
#include <engine/completion_queue.hpp>
#include <rdma/rdma_cma.h>
#include <wire/cm_message.hpp>

namespace softverbs::cm {

class event_reporter {
 public:
  event_reporter(cm_id& id, event_channel& channel);

  /// An event of this id, to be filled in and raised.
  [[nodiscard]] cm_event& make(rdma_cm_event_type type, int status = 0) const;
  /// Deletes it if there is no memory to queue it.
  void raise(cm_event& event);
  void raise(rdma_cm_event_type type, int status = 0) { raise(make(type, status)); }

  /// Events that nobody has taken move, too.
  void migrate_to(event_channel& other);
  /// From now on a channel of its own: calls wait for their outcome. Null: it has none any more.
  /// Returns the former one, which the caller destroys without the lock.
  [[nodiscard]] std::unique_ptr<event_channel> make_synchronous(std::unique_ptr<event_channel> own);
  [[nodiscard]] bool is_synchronous() const noexcept { return own_ != nullptr; }
  [[nodiscard]] event_channel& channel() const noexcept { return *channel_; }

  /// Takes the events of this id that nobody has taken out of the channel. They count as
  /// unacknowledged until the caller says otherwise.
  [[nodiscard]] std::vector<cm_event*> take_back();
  /// Without the lock.
  void acknowledge(unsigned count) { account_.acknowledged(count); }
  /// Without the lock.
  void wait_until_acknowledged() { account_.wait_until_balanced(); }

 private:
  cm_id& id_;
  event_channel* channel_;
  std::unique_ptr<event_channel> own_;
  engine::event_account account_;
};

/// Tells the private data of the message, without its first `skip` bytes.
void put_private_data(cm_event& event, const wire::cm_message& message, std::size_t skip = 0);
/// Tells the terms of a REQ or a REP.
void put_terms(cm_event& event, const wire::cm_message& message);

}  // namespace softverbs::cm
