// Connecting a queue pair by hand: RESET → INIT → RTR → RTS.

#include <algorithm>
#include <cerrno>
#include <limits>
#include <string>

#include <fmt/format.h>

#include <rdmaxx/verbs/pick_device.hpp>
#include <rdmaxx/verbs/queue_pair.hpp>

#include "context_block.hpp"
#include "qp_block.hpp"

namespace RDMAXX_NAMESPACE {

namespace {

/// More responder resources than this gain nothing and cost device memory.
constexpr std::uint32_t sensible_read_atomic = 16;

std::uint8_t responder_resources(const context& ctx) noexcept {
  return static_cast<std::uint8_t>(
      std::min(detail::block_of(ctx).limits.max_qp_read_atomic, sensible_read_atomic));
}

std::uint8_t initiator_depth(const context& ctx, const qp_endpoint& peer) noexcept {
  const auto own =
      std::min(detail::block_of(ctx).limits.max_qp_init_read_atomic, sensible_read_atomic);
  return static_cast<std::uint8_t>(std::min<std::uint32_t>(own, peer.responder_resources));
}

result<void> check_can_connect(const queue_pair& qp, std::string_view operation) {
  const auto& ctx = qp.pd().context();
  if (ctx.transport() == transport_type::iwarp) {
    return errno_error(
        operation, EOPNOTSUPP, fmt::format("{} is an iWARP device", ctx.device_name()),
        "iWARP queue pairs are connected by rdma_cm (rdma_connect, rdma_accept), not by hand");
  }
  return {};
}

/// Why a queue pair does not go to INIT: usually because it has been connected before.
error cannot_begin(const queue_pair& qp, const error& refusal) {
  const auto state = qp.state();
  if (!state || *state == qp_state::reset || *state == qp_state::init) return refusal;
  return misuse_error(
      "connect",
      fmt::format("queue pair {:#x} is in state {}, and connect() starts from reset",
                  qp.number().value(), describe(*state)),
      "reset() it first, then exchange endpoint() with the peer again");
}

result<gid_entry> own_gid(const context& ctx, std::uint8_t port,
                          std::optional<std::uint32_t> index) {
  if (!index) return pick_gid(ctx, port);
  RDMAXX_TRY(const auto address, ctx.query_gid(port, *index));
  return gid_entry{.address = address, .port = port, .index = *index};
}

result<address_vector> path_to(const qp_endpoint& peer, const port_attributes& port,
                               const gid_entry& own, const qp_connect_options& options) {
  address_vector path{.port = options.port,
                      .service_level = options.service_level,
                      .traffic_class = options.traffic_class,
                      .hop_limit = options.hop_limit,
                      .flow_label = options.flow_label};
  if (own.index > std::numeric_limits<std::uint8_t>::max()) {
    return misuse_error("connect",
                        fmt::format("GID index {} does not fit an address vector", own.index),
                        "use one below 256");
  }
  path.destination = peer.gid;
  path.source_gid_index = static_cast<std::uint8_t>(own.index);
  if (port.link_layer == link_layer::infiniband) {
    path.destination_lid = peer.lid;
    // Within one subnet the LID suffices; a GRH is for routers (and for peers without a LID).
    constexpr unsigned subnet_prefix_bits = 64;
    path.global = peer.lid == lid{} || !peer.gid.matches(own.address, subnet_prefix_bits);
    return path;
  }
  if (peer.gid.is_zero())
    return misuse_error("connect", "the peer's endpoint has no GID", "RoCE needs one");
  if (peer.gid.is_ipv4_mapped() != own.address.is_ipv4_mapped()) {
    return misuse_error(
        "connect",
        fmt::format("this side's GID {} is {} and the peer's {} is not", describe(own.address),
                    own.address.is_ipv4_mapped() ? "IPv4" : "IPv6", describe(peer.gid)),
        "use a gid_index of the same address family for endpoint() and connect() on both sides");
  }
  return path;
}

}  // namespace

result<qp_endpoint> queue_pair::endpoint(const endpoint_options& options) const {
  RDMAXX_TRY(check_can_connect(*this, "endpoint"));
  const auto& ctx = pd().context();
  RDMAXX_TRY(const auto port, ctx.query_port(options.port));
  RDMAXX_TRY(const auto own, own_gid(ctx, options.port, options.gid_index));
  return qp_endpoint{
      .number = number(),
      .first_psn = options.first_psn.value_or(detail::block_of(*this).first_psn),
      .gid = own.address,
      .lid = port.lid,
      .link_layer = port.link_layer,
      .mtu = port.active_mtu,
      .queue_key = options.queue_key,
      .responder_resources = responder_resources(ctx),
  };
}

result<void> queue_pair::to_init(const qp_connect_options& options) const {
  RDMAXX_TRY(pd().context().query_port(options.port));
  qp_attributes attributes{
      .state = qp_state::init, .pkey_index = options.pkey_index, .port = options.port};
  if (type() == qp_type::ud) {
    attributes.queue_key = options.queue_key;
  } else {
    attributes.access = options.access;
  }
  return modify(attributes);
}

result<void> queue_pair::to_rtr(const qp_endpoint& peer, const qp_connect_options& options) const {
  if (type() == qp_type::ud) return modify({.state = qp_state::rtr});
  const auto& ctx = pd().context();
  RDMAXX_TRY(const auto port, ctx.query_port(options.port));
  if (port.link_layer != peer.link_layer) {
    return misuse_error("connect",
                        fmt::format("this side's link layer is {} and the peer's {}",
                                    describe(port.link_layer), describe(peer.link_layer)));
  }
  RDMAXX_TRY(const auto own, own_gid(ctx, options.port, options.gid_index));
  RDMAXX_TRY(const auto path, path_to(peer, port, own, options));
  qp_attributes attributes{
      .state = qp_state::rtr,
      .path = path,
      .path_mtu = options.path_mtu.value_or(std::min(port.active_mtu, peer.mtu)),
      .rq_psn = peer.first_psn,
      .destination = peer.number,
  };
  if (type() == qp_type::rc) {
    attributes.max_dest_rd_atomic = responder_resources(ctx);
    attributes.min_rnr_timer = options.min_rnr_timer;
  }
  return modify(attributes);
}

result<void> queue_pair::to_rts(const qp_endpoint& peer, const qp_connect_options& options) const {
  qp_attributes attributes{.state = qp_state::rts,
                           .sq_psn = options.first_psn.value_or(detail::block_of(*this).first_psn)};
  if (type() == qp_type::rc) {
    attributes.ack_timeout = options.ack_timeout;
    attributes.retry_count = options.retry_count;
    attributes.rnr_retry = options.rnr_retry;
    attributes.max_rd_atomic =
        options.max_rd_atomic.value_or(initiator_depth(pd().context(), peer));
  }
  return modify(attributes);
}

result<void> queue_pair::connect(const qp_endpoint& peer, const qp_connect_options& options) const {
  RDMAXX_TRY(check_can_connect(*this, "connect"));
  if (const auto begun = to_init(options); !begun) return cannot_begin(*this, begun.error());
  RDMAXX_TRY(to_rtr(peer, options));
  return to_rts(peer, options);
}

std::string describe(const endpoint_options& options) {
  return fmt::format("port {} gid_index {} queue_key {:#x}", options.port,
                     options.gid_index ? std::to_string(*options.gid_index) : "automatic",
                     options.queue_key.value());
}

std::string describe(const qp_connect_options& options) {
  return fmt::format(
      "port {} gid_index {} access {} ack_timeout {} retry_count {} rnr_retry {} min_rnr_timer {}",
      options.port, options.gid_index ? std::to_string(*options.gid_index) : "automatic",
      describe(options.access), describe(options.ack_timeout), options.retry_count,
      options.rnr_retry, describe(options.min_rnr_timer));
}

}  // namespace RDMAXX_NAMESPACE
