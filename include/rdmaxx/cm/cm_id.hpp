#pragma once

// cm_id: one identifier of the connection manager: a connection, a listener, or a datagram
// service.
//
//   active side                                     passive side
//   id.resolve_addr(there, 2s)   → addr_resolved    id.bind(here); id.listen();
//   id.resolve_route(2s)         → route_resolved     → connect_request; new = event.take_id()
//   id.create_qp({…})                               new.create_qp({…})
//   id.connect({…})              → established      new.accept({…})             → established
//   id.disconnect()              → disconnected     new.disconnect()            → disconnected
//
// Every call only starts something; the event on the identifier's channel reports the outcome.
// cm::connect() and cm::listener do all of this and wait (see cm/connect.hpp, cm/listener.hpp).
//
// Lifetime: move-only. An identifier keeps its channel, its queue pair and what that refers to
// alive. Destroying it ends the connection: it leaves its multicast groups, then the queue pair is
// destroyed, then the identifier. An event of it that is still held postpones all that until it is
// acknowledged. take_qp() reverses the ownership: a queue pair that was taken keeps the identifier
// (so the connection) alive. On iWARP, destroying an identifier with a pending connection request
// waits until the peer has answered or the kernel has given up (siw: 10 s).
//
// Threads: one at a time per identifier, while another one may wait on the channel.

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include <rdma/rdma_cma.h>

#include <rdmaxx/cm/connection_parameters.hpp>
#include <rdmaxx/cm/event_channel.hpp>
#include <rdmaxx/cm/multicast.hpp>
#include <rdmaxx/cm/port_space.hpp>
#include <rdmaxx/cm/socket_address.hpp>
#include <rdmaxx/core/handle.hpp>
#include <rdmaxx/core/result.hpp>
#include <rdmaxx/verbs/completion_queue.hpp>
#include <rdmaxx/verbs/context.hpp>
#include <rdmaxx/verbs/protection_domain.hpp>
#include <rdmaxx/verbs/qp_attributes.hpp>
#include <rdmaxx/verbs/queue_pair.hpp>
#include <rdmaxx/verbs/shared_receive_queue.hpp>

namespace RDMAXX_NAMESPACE {

/// The queue pair of an identifier. Its type follows from the port space. Objects left empty are
/// created on the identifier's device; objects given must come from cm_id::context(), which is not
/// the context that open_device() returns.
struct cm_qp_config {
  protection_domain pd{};
  completion_queue send_cq{};  ///< if empty: of the send queue's size, with a channel of its own
  completion_queue recv_cq{};  ///< if empty: of the receive queue's size, with a channel of its own
  qp_capabilities capabilities{};
  /// Every send request raises a completion, whatever its flags say.
  bool signal_all = false;
  /// Where its receives come from, instead of a queue of its own; of the same context.
  shared_receive_queue srq{};
};
[[nodiscard]] std::string describe(const cm_qp_config& config);

/// Settings that must be made before an address is bound or resolved.
struct cm_id_options {
  std::optional<std::uint8_t> type_of_service{};  ///< of the connection's packets (DSCP and ECN)
  bool reuse_address = false;       ///< bind where another identifier was bound before
  std::optional<bool> ipv6_only{};  ///< [::] does not include IPv4 addresses
  std::optional<rdmaxx::ack_timeout> ack_timeout{};  ///< RoCE, InfiniBand
};
[[nodiscard]] std::string describe(const cm_id_options& options);

class cm_id : public unique_handle<rdma_cm_id> {
 public:
  cm_id() noexcept = default;

  /// Where its events go.
  [[nodiscard]] const event_channel& channel() const noexcept;
  [[nodiscard]] rdmaxx::port_space space() const noexcept { return port_space(live()->ps); }
  /// The device, once an address has been bound or resolved; a wildcard address has none.
  [[nodiscard]] result<rdmaxx::context> context() const;
  /// Port of the device; 0 without a device.
  [[nodiscard]] std::uint8_t port() const noexcept { return live()->port_num; }
  /// The queue pair; empty before create_qp() and after take_qp().
  [[nodiscard]] const queue_pair& qp() const noexcept;
  /// The queue pair's domain; empty before create_qp().
  [[nodiscard]] const protection_domain& pd() const noexcept;
  [[nodiscard]] socket_address local_address() const noexcept;
  [[nodiscard]] socket_address peer_address() const noexcept;

  [[nodiscard]] result<void> set(const cm_id_options& options) const;
  [[nodiscard]] result<void> set_type_of_service(std::uint8_t type) const;
  [[nodiscard]] result<void> set_reuse_address(bool reuse = true) const;
  [[nodiscard]] result<void> set_ipv6_only(bool only = true) const;
  [[nodiscard]] result<void> set_ack_timeout(ack_timeout timeout) const;

  /// Binds to an address of this host; port 0 means any free port, which local_address() returns.
  [[nodiscard]] result<void> bind(const socket_address& local) const;
  /// → addr_resolved or addr_error. Finds the device that reaches the address, and binds to it.
  [[nodiscard]] result<void> resolve_addr(const socket_address& peer,
                                          std::chrono::milliseconds timeout) const;
  /// The same, from this address of this host.
  [[nodiscard]] result<void> resolve_addr(const socket_address& source, const socket_address& peer,
                                          std::chrono::milliseconds timeout) const;
  /// → route_resolved or route_error.
  [[nodiscard]] result<void> resolve_route(std::chrono::milliseconds timeout) const;

  /// Creates the identifier's queue pair, ready for receives to be posted (UD: ready for
  /// everything).
  [[nodiscard]] result<void> create_qp(const cm_qp_config& config = {}) const;
  /// Gives the queue pair to the caller; it keeps this identifier alive from now on.
  [[nodiscard]] queue_pair take_qp() const;

  /// → established, rejected, unreachable or connect_error.
  [[nodiscard]] result<void> connect(const connection_parameters& parameters = {}) const;
  /// Requests of peers arrive as connect_request events. At most `backlog` wait to be accepted.
  [[nodiscard]] result<void> listen(int backlog = 128) const;
  /// Of a requested identifier → established or an error event. UD: no event follows.
  [[nodiscard]] result<void> accept(const connection_parameters& parameters = {}) const;
  /// Rejects the request; the peer gets the bytes with its `rejected` event.
  [[nodiscard]] result<void> reject(std::span<const std::byte> private_data = {}) const;
  /// Ends the connection on both sides; everything in flight is flushed. → disconnected. The other
  /// side should then disconnect, too: this side waits for that answer.
  [[nodiscard]] result<void> disconnect() const;

  /// Reports to another channel from now on; pending events move along. Refused while an event of
  /// this identifier is held.
  [[nodiscard]] result<void> migrate(const event_channel& channel) const;

  /// UD → multicast_join, whose datagram_peer() says where to send, or multicast_error. Full
  /// members need a queue pair before they join, because it gets attached to the group.
  [[nodiscard]] result<void> join_multicast(
      const socket_address& group, multicast_membership kind = multicast_membership::full) const;
  /// Refused while an event of this identifier is held.
  [[nodiscard]] result<void> leave_multicast(const socket_address& group) const;

 private:
  friend struct detail::handle_access;
  using unique_handle::unique_handle;
};
/// "cm_id tcp 10.0.0.1:33000 → 10.0.0.7:7471 on rxe0, queue pair 0x11 rts"
[[nodiscard]] std::string describe(const cm_id& id);

}  // namespace RDMAXX_NAMESPACE
