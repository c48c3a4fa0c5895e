#pragma once

// cm::find_datagram_peer, cm::join_multicast: where to send datagrams, in one call.
//
//   auto id = cm::resolve("10.0.0.7:7471", {.space = port_space::udp}).value();
//   id.create_qp().value();
//   auto peer = cm::find_datagram_peer(id).value();        // asks the service behind that port
//   id.qp().post(ud_send_wr{.from = …, .to = peer.ah, .remote_queue_pair = peer.queue_pair,
//                           .remote_queue_key = peer.queue_key}).value();
//
// The identifier must have a channel of its own, as those from cm::resolve() and
// cm::open_datagram() have, because the wait drops events of other identifiers.

#include <chrono>
#include <cstddef>
#include <string>
#include <vector>

#include <rdmaxx/cm/cm_id.hpp>
#include <rdmaxx/cm/connect.hpp>
#include <rdmaxx/cm/connection_parameters.hpp>
#include <rdmaxx/cm/multicast.hpp>
#include <rdmaxx/cm/socket_address.hpp>
#include <rdmaxx/core/identifiers.hpp>
#include <rdmaxx/core/result.hpp>
#include <rdmaxx/verbs/address_handle.hpp>

namespace RDMAXX_NAMESPACE::cm {

/// A destination of UD sends, ready for use.
struct datagram_destination {
  address_handle ah{};
  qpn queue_pair{};
  qkey queue_key{};
  std::vector<std::byte> peer_data{};  ///< the service's private data, padded with zeros
};
[[nodiscard]] std::string describe(const datagram_destination& destination);

/// A UD identifier with a channel and a queue pair of its own, bound to an address of this host.
[[nodiscard]] result<cm_id> open_datagram(const socket_address& local,
                                          const cm_qp_config& config = {},
                                          const cm_id_options& options = {});

/// Asks the listener behind the resolved address for its queue pair.
[[nodiscard]] result<datagram_destination> find_datagram_peer(
    const cm_id& resolved, const connection_parameters& parameters = {},
    std::chrono::milliseconds timeout = default_timeout);

/// Joins and waits until that is done.
[[nodiscard]] result<datagram_destination> join_multicast(
    const cm_id& member, const socket_address& group,
    multicast_membership kind = multicast_membership::full,
    std::chrono::milliseconds timeout = default_timeout);

}  // namespace RDMAXX_NAMESPACE::cm
