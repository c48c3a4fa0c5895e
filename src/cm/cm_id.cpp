#include <rdmaxx/cm/cm_id.hpp>

#include <algorithm>
#include <cerrno>
#include <limits>
#include <memory>
#include <mutex>
#include <utility>

#include <fmt/format.h>

#include <rdmaxx/core/check.hpp>

#include "cm/cm_id_block.hpp"
#include "cm/device_context.hpp"
#include "cm/event_channel_block.hpp"
#include "cm/loopback.hpp"
#include "cm/missing_port.hpp"
#include "verbs/qp_block.hpp"
#include "verbs/qp_creation.hpp"

namespace RDMAXX_NAMESPACE {

namespace {

/// The C functions take non-const addresses but only read them.
sockaddr* mutable_address(const socket_address& address) noexcept {
  return address ? const_cast<sockaddr*>(address.native()) : nullptr;
}

int milliseconds_of(std::chrono::milliseconds timeout) noexcept {
  return static_cast<int>(std::clamp<std::chrono::milliseconds::rep>(
      timeout.count(), 0, std::numeric_limits<int>::max()));
}

/// rdma_cm reports EADDRNOTAVAIL if a wildcard or loopback address and another one want the same
/// port, in either order.
bool is_taken_port(int errno_value, const socket_address& address) noexcept {
  return errno_value == EADDRINUSE ||
         (errno_value == EADDRNOTAVAIL && (address.is_any() || detail::is_loopback(address)));
}

std::string address_hint(int errno_value, const socket_address& address) {
  if (is_taken_port(errno_value, address)) {
    return fmt::format(
        "{}another program uses port {} {}: use another port, end that program, or set "
        "reuse_address if it has just ended",
        address.is_any() ? "the wildcard means every address of this host, and " : "",
        address.port(), address.is_any() ? "on one of them" : "there");
  }
  if (errno_value == EADDRNOTAVAIL) {
    return fmt::format(
        "this host does not have that address, or another program uses port {} on "
        "every address{}",
        address.port(), detail::bracket_hint(address));
  }
  if (errno_value == ENODEV || errno_value == ENOENT) {
    return "no RDMA device of this host has, or reaches, that address" +
           detail::bracket_hint(address);
  }
  return {};
}

result<void> checked(int rc, std::string_view call, const socket_address& address) {
  if (rc == 0) return {};
  const int errno_value = errno_of(rc);
  auto failed =
      errno_error(call, errno_value, describe(address), address_hint(errno_value, address));
  return is_taken_port(errno_value, address) ? failed.as(error_category::resources) : failed;
}

template <class Value>
result<void> set_option(rdma_cm_id* id, int option, Value value, std::string_view name) {
  const int rc = rdma_set_option(id, RDMA_OPTION_ID, option, &value, sizeof value);
  if (rc == 0) return {};
  return errno_error("rdma_set_option", errno_of(rc), std::string(name));
}

/// The private data of InfiniBand connection manager messages (IBA 12.6, 12.11), less the 36 bytes
/// of rdma_cm's own header in requests. iWARP has room for more.
std::size_t private_data_limit(std::string_view call, port_space space) noexcept {
  const bool datagrams = is_datagram(space);
  if (call == "rdma_connect") return datagrams ? 180 : 56;
  if (call == "rdma_accept") return datagrams ? 136 : 196;
  return datagrams ? 136 : 148;
}

/// Too much private data explains most refused calls.
result<void> checked(int rc, std::string_view call, port_space space,
                     const connection_parameters& parameters) {
  if (rc == 0) return {};
  const int errno_value = errno_of(rc);
  if (errno_value != EINVAL) return errno_error(call, errno_value, describe(parameters));
  const auto limit = private_data_limit(call, space);
  if (parameters.private_data.size() > limit) {
    return misuse_error(call,
                        fmt::format("{} bytes of private data, and this message carries at most {}",
                                    parameters.private_data.size(), limit),
                        "send the rest over the connection once it is established");
  }
  return errno_error(call, errno_value, describe(parameters),
                     "check that initiator_depth and responder_resources are within the device's "
                     "limits, and that the identifier is in the right state for this call");
}

result<completion_queue> cq_or_new(const completion_queue& given, const context& ctx,
                                   std::uint32_t requests) {
  if (given) return given;
  RDMAXX_TRY(const auto channel, ctx.create_completion_channel());
  // One more than the requests: drain() posts a marker of its own.
  return ctx.create_cq({.capacity = requests + 1, .channel = channel});
}

result<protection_domain> pd_or_new(const protection_domain& given, const context& ctx) {
  if (given) return given;
  return ctx.alloc_pd();
}

error events_unacknowledged(std::string_view operation, unsigned count) {
  return errno_error(operation, EBUSY, fmt::format("{} events are not acknowledged", count),
                     "acknowledge the events of this identifier first");
}

}  // namespace

const event_channel& cm_id::channel() const noexcept { return detail::block_of(*this).channel; }

result<rdmaxx::context> cm_id::context() const {
  if (live()->verbs == nullptr) {
    return misuse_error("cm_id::context", "the identifier has no device yet",
                        "bind it to an address of a device, or resolve one; wildcards have none");
  }
  return detail::device_context(live()->verbs);
}

const queue_pair& cm_id::qp() const noexcept { return detail::block_of(*this).qp; }

const protection_domain& cm_id::pd() const noexcept { return detail::block_of(*this).pd; }

socket_address cm_id::local_address() const noexcept {
  return socket_address(*rdma_get_local_addr(live()));
}

socket_address cm_id::peer_address() const noexcept {
  return socket_address(*rdma_get_peer_addr(live()));
}

result<void> cm_id::set(const cm_id_options& options) const {
  if (options.type_of_service) RDMAXX_TRY(set_type_of_service(*options.type_of_service));
  if (options.reuse_address) RDMAXX_TRY(set_reuse_address());
  if (options.ipv6_only) RDMAXX_TRY(set_ipv6_only(*options.ipv6_only));
  if (options.ack_timeout) RDMAXX_TRY(set_ack_timeout(*options.ack_timeout));
  return {};
}

result<void> cm_id::set_type_of_service(std::uint8_t type) const {
  return set_option(live(), RDMA_OPTION_ID_TOS, type, "type_of_service");
}

result<void> cm_id::set_reuse_address(bool reuse) const {
  return set_option(live(), RDMA_OPTION_ID_REUSEADDR, reuse ? 1 : 0, "reuse_address");
}

result<void> cm_id::set_ipv6_only(bool only) const {
  return set_option(live(), RDMA_OPTION_ID_AFONLY, only ? 1 : 0, "ipv6_only");
}

result<void> cm_id::set_ack_timeout(ack_timeout timeout) const {
  return set_option(live(), RDMA_OPTION_ID_ACK_TIMEOUT, timeout.exponent(), "ack_timeout");
}

result<void> cm_id::bind(const socket_address& local) const {
  if (!local) return misuse_error("bind", "no address was given");
  return checked(rdma_bind_addr(live(), mutable_address(local)), "rdma_bind_addr", local);
}

result<void> cm_id::resolve_addr(const socket_address& peer,
                                 std::chrono::milliseconds timeout) const {
  return resolve_addr({}, peer, timeout);
}

result<void> cm_id::resolve_addr(const socket_address& source, const socket_address& peer,
                                 std::chrono::milliseconds timeout) const {
  if (!peer) return misuse_error("resolve_addr", "no address was given");
  return checked(rdma_resolve_addr(live(), mutable_address(source), mutable_address(peer),
                                   milliseconds_of(timeout)),
                 "rdma_resolve_addr", peer);
}

result<void> cm_id::resolve_route(std::chrono::milliseconds timeout) const {
  return check(rdma_resolve_route(live(), milliseconds_of(timeout)), "rdma_resolve_route");
}

result<void> cm_id::create_qp(const cm_qp_config& config) const {
  auto& block = detail::block_of(*this);
  if (live()->qp != nullptr)
    return misuse_error("create_qp", "the identifier already has a queue pair");
  RDMAXX_TRY(const auto ctx, context());
  if (config.pd && config.pd.context() != ctx) {
    return misuse_error("create_qp", "the protection domain belongs to another context",
                        "allocate it from cm_id::context(): librdmacm opens devices for itself");
  }
  RDMAXX_TRY(const auto pd, pd_or_new(config.pd, ctx));
  RDMAXX_TRY(const auto send_cq, cq_or_new(config.send_cq, ctx, config.capabilities.max_send_wr));
  RDMAXX_TRY(const auto recv_cq, cq_or_new(config.recv_cq, ctx, config.capabilities.max_recv_wr));
  RDMAXX_TRY(block.qp, detail::create_queue_pair(
                           pd,
                           {.type = qp_type_of(space()),
                            .send_cq = send_cq,
                            .recv_cq = recv_cq,
                            .capabilities = config.capabilities,
                            .signal_all = config.signal_all,
                            .srq = config.srq},
                           {.call = "rdma_create_qp",
                            .make = [&](ibv_qp_init_attr_ex& attributes) -> ibv_qp* {
                              if (rdma_create_qp_ex(live(), &attributes) != 0) return nullptr;
                              return live()->qp;
                            },
                            .end = {.destroy = [&block] { return block.destroy_queue_pair(); }}}));
  block.pd = pd;
  return {};
}

queue_pair cm_id::take_qp() const {
  auto& block = detail::block_of(*this);
  if (block.qp) {
    block.retain();
    detail::block_of(block.qp).adopted.keep_alive =
        std::make_shared<detail::reference>(detail::reference(&block));
  }
  return std::exchange(block.qp, {});
}

result<void> cm_id::connect(const connection_parameters& parameters) const {
  RDMAXX_TRY(auto wanted, parameters.native());
  return checked(rdma_connect(live(), &wanted), "rdma_connect", space(), parameters);
}

result<void> cm_id::listen(int backlog) const {
  return checked(rdma_listen(live(), backlog), "rdma_listen", local_address());
}

result<void> cm_id::accept(const connection_parameters& parameters) const {
  RDMAXX_TRY(auto wanted, parameters.native());
  return checked(rdma_accept(live(), &wanted), "rdma_accept", space(), parameters);
}

result<void> cm_id::reject(std::span<const std::byte> private_data) const {
  const connection_parameters parameters{.private_data = private_data};
  RDMAXX_TRY(const auto checked_size, parameters.native());
  return checked(rdma_reject(live(), checked_size.private_data, checked_size.private_data_len),
                 "rdma_reject", space(), parameters);
}

result<void> cm_id::disconnect() const { return check(rdma_disconnect(live()), "rdma_disconnect"); }

result<void> cm_id::migrate(const event_channel& channel) const {
  if (!channel) return misuse_error("migrate", "the channel is empty");
  auto& block = detail::block_of(*this);
  if (channel == block.channel) return {};
  const event_channel old_channel = block.channel;  // released after the locks
  auto& from = detail::block_of(old_channel);
  auto& to = detail::block_of(channel);
  const std::scoped_lock lock(from.mutex, to.mutex);
  // rdma_migrate_id would wait for them, and this thread itself may hold them.
  if (const auto count = block.unacknowledged.load())
    return events_unacknowledged("migrate", count);
  RDMAXX_TRY(check(rdma_migrate_id(live(), channel.native()), "rdma_migrate_id"));
  from.ids.remove(live(), block);
  to.ids.add(live(), block);
  block.channel = channel;
  return {};
}

result<void> cm_id::join_multicast(const socket_address& group, multicast_membership kind) const {
  if (!group) return misuse_error("join_multicast", "no group was given");
  rdma_cm_join_mc_attr_ex wanted{};
  wanted.comp_mask = RDMA_CM_JOIN_MC_ATTR_ADDRESS | RDMA_CM_JOIN_MC_ATTR_JOIN_FLAGS;
  wanted.join_flags = kind == multicast_membership::full ? RDMA_MC_JOIN_FLAG_FULLMEMBER
                                                         : RDMA_MC_JOIN_FLAG_SENDONLY_FULLMEMBER;
  wanted.addr = mutable_address(group);
  auto& groups = detail::block_of(*this).groups;
  groups.reserve(groups.size() + 1);
  RDMAXX_TRY(
      checked(rdma_join_multicast_ex(live(), &wanted, nullptr), "rdma_join_multicast_ex", group));
  groups.push_back(group);
  return {};
}

result<void> cm_id::leave_multicast(const socket_address& group) const {
  auto& block = detail::block_of(*this);
  const std::lock_guard lock(detail::block_of(block.channel).mutex);
  const auto joined = std::ranges::find(block.groups, group);
  if (joined == block.groups.end())
    return misuse_error("leave_multicast", fmt::format("{} was not joined", describe(group)));
  // rdma_leave_multicast would wait for the event of the join, which this thread itself may hold.
  if (const auto count = block.unacknowledged.load())
    return events_unacknowledged("leave_multicast", count);
  RDMAXX_TRY(
      checked(rdma_leave_multicast(live(), mutable_address(group)), "rdma_leave_multicast", group));
  block.groups.erase(joined);
  return {};
}

std::string describe(const cm_qp_config& config) {
  return fmt::format("{}{}{}", describe(config.capabilities),
                     config.signal_all ? " signal_all" : "", config.srq ? " with an srq" : "");
}

std::string describe(const cm_id_options& options) {
  std::string text;
  if (options.type_of_service)
    text += fmt::format(" type_of_service {:#x}", *options.type_of_service);
  if (options.reuse_address) text += " reuse_address";
  if (options.ipv6_only) text += fmt::format(" ipv6_only {}", *options.ipv6_only);
  if (options.ack_timeout) text += fmt::format(" ack_timeout {}", describe(*options.ack_timeout));
  return text.empty() ? "defaults" : text.substr(1);
}

std::string describe(const cm_id& id) {
  if (!id) return "cm_id (empty)";
  auto text = fmt::format("cm_id {}", describe(id.space()));
  if (const auto local = id.local_address()) text += fmt::format(" {}", describe(local));
  if (const auto peer = id.peer_address(); peer && peer.port() != 0)
    text += fmt::format(" → {}", describe(peer));
  if (const auto* device = id.native()->verbs)
    text += fmt::format(" on {}", ibv_get_device_name(device->device));
  if (const auto& qp = id.qp()) {
    const auto state = qp.state();
    text += fmt::format(", queue pair {:#x} {}", qp.number().value(),
                        state ? describe(*state) : "in an unknown state");
  }
  return text;
}

}  // namespace RDMAXX_NAMESPACE
