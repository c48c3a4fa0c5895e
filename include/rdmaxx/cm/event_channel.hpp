#pragma once

// event_channel: where the connection manager reports what happened to its identifiers.
//
//   auto channel = event_channel::create().value();
//   auto id = channel.create_id(port_space::tcp).value();
//   id.resolve_addr(there, 2s).value();
//   auto event = channel.get_event(3s).value();         // std::errc::timed_out after 3 s
//
// Lifetime: copies share one channel; its identifiers keep it alive. Threads: all members, any
// thread; each event goes to one waiter. While one thread waits here, others may use and destroy
// the channel's identifiers. The descriptor is non-blocking and close-on-exec.

#include <chrono>
#include <optional>
#include <string>

#include <rdma/rdma_cma.h>

#include <rdmaxx/cm/port_space.hpp>
#include <rdmaxx/core/handle.hpp>
#include <rdmaxx/core/readiness.hpp>
#include <rdmaxx/core/result.hpp>

namespace RDMAXX_NAMESPACE {

class cm_event;
class cm_id;

class event_channel : public shared_handle<rdma_event_channel> {
 public:
  event_channel() noexcept = default;

  [[nodiscard]] static result<event_channel> create();
  /// Takes over a channel that was created elsewhere; its descriptor becomes non-blocking.
  [[nodiscard]] static result<event_channel> adopt(rdma_event_channel* native, adoption how = {});

  /// An identifier that reports here.
  [[nodiscard]] result<cm_id> create_id(port_space space = port_space::tcp) const;
  /// Takes over an identifier of this channel that was created elsewhere. If it already has a queue
  /// pair, the caller keeps that.
  [[nodiscard]] result<cm_id> adopt_id(rdma_cm_id* id, adoption how = {}) const;

  /// Readable when an event is pending; for epoll and the like.
  [[nodiscard]] int fd() const noexcept { return live()->fd; }

  /// The next event, or nothing if there is none now.
  [[nodiscard]] result<std::optional<cm_event>> try_get_event() const;
  /// The next event; ETIMEDOUT if there is none in time.
  [[nodiscard]] result<cm_event> get_event(
      std::optional<std::chrono::milliseconds> timeout = forever) const;

 private:
  friend struct detail::handle_access;
  using shared_handle::shared_handle;
};
[[nodiscard]] std::string describe(const event_channel& channel);

}  // namespace RDMAXX_NAMESPACE
