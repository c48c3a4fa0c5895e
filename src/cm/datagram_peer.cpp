#include <rdmaxx/cm/datagram_peer.hpp>

#include <fmt/format.h>

namespace RDMAXX_NAMESPACE {

datagram_peer datagram_peer::from_native(const rdma_ud_param& native) noexcept {
  return {.path = address_vector::from_native(native.ah_attr),
          .queue_pair = qpn(native.qp_num),
          .queue_key = qkey(native.qkey)};
}

std::string describe(const datagram_peer& peer) {
  return fmt::format("queue pair {:#x} queue key {:#x}, {}", peer.queue_pair.value(),
                     peer.queue_key.value(), describe(peer.path));
}

}  // namespace RDMAXX_NAMESPACE
