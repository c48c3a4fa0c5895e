#pragma once

// datagram_peer: everything that a UD send needs to know about its destination.
//
//   auto peer = event.datagram_peer();                 // of an established or multicast_join event
//   auto ah = id.pd().create_ah(peer.path).value();
//   id.qp().post(ud_send_wr{.from = …, .to = ah, .remote_queue_pair = peer.queue_pair,
//                           .remote_queue_key = peer.queue_key}).value();

#include <string>

#include <rdma/rdma_cma.h>

#include <rdmaxx/core/identifiers.hpp>
#include <rdmaxx/verbs/address_handle.hpp>

namespace RDMAXX_NAMESPACE {

struct datagram_peer {
  address_vector path{};
  qpn queue_pair{};  ///< 0xffffff for a multicast group
  qkey queue_key{};

  [[nodiscard]] static datagram_peer from_native(const rdma_ud_param& native) noexcept;
};
[[nodiscard]] std::string describe(const datagram_peer& peer);

}  // namespace RDMAXX_NAMESPACE
