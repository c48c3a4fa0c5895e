#pragma once

// cm_event: something happened to an identifier: an address was resolved, a peer asks for a
// connection, a connection was established or ended.
//
//   auto event = channel.get_event(1s).value();       // std::errc::timed_out after 1 s
//   event.outcome().value();                          // throws if the operation failed
//   if (event.type() == cm_event_type::connect_request) {
//     auto id = event.take_id().value();
//     inspect(event.private_data());                  // valid until the event ends
//   }
//
// An event acknowledges itself when it is destroyed, and keeps its identifier alive until then.
// rdma_destroy_id waits until all events of an identifier are acknowledged; since an identifier
// with an event is not destroyed, nothing deadlocks, not even a thread that destroys a cm_id while
// it holds an event of it.
//
// The identifier of a connect_request belongs to the event until it is taken. If it is not taken,
// the event's destructor destroys it, which rejects the request.
//
// Lifetime: move-only. Threads: one at a time.

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include <rdma/rdma_cma.h>

#include <rdmaxx/cm/cm_id.hpp>
#include <rdmaxx/cm/connection_parameters.hpp>
#include <rdmaxx/cm/datagram_peer.hpp>
#include <rdmaxx/core/handle.hpp>
#include <rdmaxx/core/result.hpp>

namespace RDMAXX_NAMESPACE {

enum class cm_event_type : std::uint8_t {
  addr_resolved = RDMA_CM_EVENT_ADDR_RESOLVED,
  addr_error = RDMA_CM_EVENT_ADDR_ERROR,
  route_resolved = RDMA_CM_EVENT_ROUTE_RESOLVED,
  route_error = RDMA_CM_EVENT_ROUTE_ERROR,
  connect_request = RDMA_CM_EVENT_CONNECT_REQUEST,
  connect_response = RDMA_CM_EVENT_CONNECT_RESPONSE,  ///< only for an id without a queue pair
  connect_error = RDMA_CM_EVENT_CONNECT_ERROR,
  unreachable = RDMA_CM_EVENT_UNREACHABLE,
  rejected = RDMA_CM_EVENT_REJECTED,
  established = RDMA_CM_EVENT_ESTABLISHED,
  disconnected = RDMA_CM_EVENT_DISCONNECTED,
  device_removal = RDMA_CM_EVENT_DEVICE_REMOVAL,
  multicast_join = RDMA_CM_EVENT_MULTICAST_JOIN,
  multicast_error = RDMA_CM_EVENT_MULTICAST_ERROR,
  addr_change = RDMA_CM_EVENT_ADDR_CHANGE,
  timewait_exit = RDMA_CM_EVENT_TIMEWAIT_EXIT,
};
[[nodiscard]] std::string_view describe(cm_event_type type) noexcept;

class [[nodiscard]] cm_event {
 public:
  cm_event(cm_event&& other) noexcept;
  cm_event& operator=(cm_event&& other) noexcept;
  cm_event(const cm_event&) = delete;
  cm_event& operator=(const cm_event&) = delete;
  ~cm_event() { acknowledge(); }

  [[nodiscard]] cm_event_type type() const noexcept { return type_; }
  /// The C library's value: 0, a negated errno, or the reject reason. See outcome().
  [[nodiscard]] int status() const noexcept { return status_; }
  /// Success, or why the operation failed; a peer's reject reason is decoded.
  [[nodiscard]] result<void> outcome() const;

  /// True if the event is about this identifier; for a connect_request that is the listener.
  [[nodiscard]] bool concerns(const cm_id& id) const noexcept;
  /// connect_request: the identifier of the new connection. It can be taken once.
  [[nodiscard]] result<cm_id> take_id();

  /// The peer's private data, perhaps padded with zeros; empty after acknowledge().
  [[nodiscard]] std::span<const std::byte> private_data() const noexcept;
  /// connect_request, connect_response, established: what the peer offered; valid until
  /// acknowledge().
  [[nodiscard]] connection_parameters parameters() const noexcept;
  /// UD, established and multicast_join: where to send; valid until acknowledge().
  [[nodiscard]] rdmaxx::datagram_peer datagram_peer() const noexcept;

  /// Acknowledges now instead of in the destructor. type() and status() stay valid, everything else
  /// does not; a new identifier that was not taken is destroyed.
  void acknowledge() noexcept;

  /// Null after acknowledge().
  [[nodiscard]] const rdma_cm_event* native() const noexcept { return native_; }

 private:
  friend class event_channel;
  cm_event(rdma_cm_event* native, detail::reference subject, detail::reference new_id) noexcept;

  rdma_cm_event* native_ = nullptr;
  detail::reference subject_;
  detail::reference new_id_;
  cm_event_type type_{};
  int status_ = 0;
  bool datagram_ = false;
};
/// "rejected (rejected, reason 28 (consumer))"
[[nodiscard]] std::string describe(const cm_event& event);

}  // namespace RDMAXX_NAMESPACE
