// The functions of librdmacm for ids: making and destroying them, their addresses, options and
// multicast groups.
#include <cerrno>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include <cm/api_call.hpp>
#include <cm/cm_id.hpp>
#include <cm/event_channel.hpp>
#include <cm/soft_cm.hpp>
#include <engine/fault_plan.hpp>
#include <netinet/in.h>

namespace softverbs::cm {
namespace {

ibv_qp_type type_of(rdma_port_space space) {
  return space == RDMA_PS_UDP || space == RDMA_PS_IPOIB ? IBV_QPT_UD : IBV_QPT_RC;
}

/// Neither its peer nor its user hears of it any more, and events that nobody has taken are thrown
/// away.
void retire(cm_id& who) {
  std::vector<cm_event*> removed;
  {
    const std::lock_guard lock(who.manager.mutex);
    who.retire();
    removed = who.events.take_back();
  }
  for (auto* each : removed) {
    // A request that its listener's user never saw.
    if (each->id != &who) destroy_id(each->id);
    delete each;
  }
  who.events.acknowledge(static_cast<unsigned>(removed.size()));
}

}  // namespace

int create_id(rdma_event_channel* channel, rdma_cm_id** id, void* context, rdma_port_space space) {
  if (const int wanted = engine::injected_failure("rdma_create_id")) return result(wanted);
  return make_id(channel, id, context, space, type_of(space));
}

int destroy_id(rdma_cm_id* id) {
  auto& who = cm_id::of(id);
  if (!who.is_alive()) return result(ENODEV);
  retire(who);
  if (id->event != nullptr) ack_cm_event(id->event);
  who.events.wait_until_acknowledged();
  const std::lock_guard lock(who.manager.mutex);
  delete &who;
  return 0;
}

int migrate_id(rdma_cm_id* id, rdma_event_channel* channel) {
  auto& who = cm_id::of(id);
  if (!who.is_alive()) return result(ENODEV);
  if (who.events.is_synchronous() && channel == nullptr) return result(EINVAL);
  std::unique_ptr<event_channel> own;
  auto* events = static_cast<event_channel*>(channel);
  if (events == nullptr) {
    own = std::make_unique<event_channel>();
    if (own->fd < 0) return result(EMFILE);
    events = own.get();
  }
  acknowledge_held_event(id);
  const std::lock_guard lock(who.manager.mutex);
  who.events.migrate_to(*events);
  own = who.events.make_synchronous(std::move(own));
  return 0;
}

int bind_addr(rdma_cm_id* id, sockaddr* address) {
  if (const int wanted = engine::injected_failure("rdma_bind_addr")) return result(wanted);
  return with(id, [&](cm_id& who) { return who.address.bind(address); });
}

int resolve_addr(rdma_cm_id* id, sockaddr* source, sockaddr* destination) {
  if (const int wanted = engine::injected_failure("rdma_resolve_addr")) return result(wanted);
  return begin_and_complete(id, [&](cm_id& who) {
    const auto [error, failure] = who.address.resolve(source, destination);
    if (error != 0) return error;
    who.events.raise(failure == 0 ? RDMA_CM_EVENT_ADDR_RESOLVED : RDMA_CM_EVENT_ADDR_ERROR,
                     -failure);
    return 0;
  });
}

int resolve_route(rdma_cm_id* id) {
  if (const int wanted = engine::injected_failure("rdma_resolve_route")) return result(wanted);
  return begin_and_complete(id, [](cm_id& who) {
    const int failure = who.address.resolve_route();
    if (failure == 0) who.events.raise(RDMA_CM_EVENT_ROUTE_RESOLVED);
    return failure;
  });
}

int set_option(rdma_cm_id* id, int level, int option, const void* value, std::size_t bytes) {
  return with(id, [&](cm_id& who) {
    return who.address.set_option(level, option, {static_cast<const std::byte*>(value), bytes});
  });
}

__be16 src_port(rdma_cm_id* id) {
  // The port is in the same place in both families.
  return id->route.addr.src_sin.sin_port;
}

__be16 dst_port(rdma_cm_id* id) { return id->route.addr.dst_sin.sin_port; }

int join_multicast(rdma_cm_id* id, sockaddr* address, void* context) {
  if (const int wanted = engine::injected_failure("rdma_join_multicast")) return result(wanted);
  return begin_and_complete(id, [&](cm_id& who) {
    if (!who.is_datagram()) return EINVAL;
    const auto [error, failure, group] = who.groups.join(who.address, who.qp, address);
    if (error != 0) return error;
    auto& event = who.events.make(
        failure == 0 ? RDMA_CM_EVENT_MULTICAST_JOIN : RDMA_CM_EVENT_MULTICAST_ERROR, -failure);
    auto& member = event.param.ud;
    member.private_data = context;
    member.qp_num = wire::multicast_qpn;
    member.qkey = RDMA_UDP_QKEY;
    member.ah_attr = who.address.path_to(group);
    who.events.raise(event);
    return 0;
  });
}

int leave_multicast(rdma_cm_id* id, sockaddr* address) {
  return with(id, [&](cm_id& who) { return who.groups.leave(who.qp, address); });
}

}  // namespace softverbs::cm
