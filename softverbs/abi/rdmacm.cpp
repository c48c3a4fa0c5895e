// The functions of librdmacm. A process uses one connection manager for everything, because an
// identifier belongs to no device until it has an address: the real one if there is a real device,
// else the soft one; SOFTVERBS_CM decides otherwise.

#include <abi/rdmacm.hpp>

#include <cerrno>
#include <cstdint>

#include <abi/device_list.hpp>
#include <abi/real.hpp>
#include <base/c_function.hpp>
#include <base/settings.hpp>
#include <cm/soft_cm.hpp>
#include <rdma/rdma_cma.h>

using namespace softverbs;

// As in <rdma/rdma_verbs.h>, whose inline functions no C++ compiler takes without warnings.
extern "C" {
int rdma_create_srq(rdma_cm_id* id, ibv_pd* pd, ibv_srq_init_attr* attributes);
int rdma_create_srq_ex(rdma_cm_id* id, ibv_srq_init_attr_ex* attributes);
void rdma_destroy_srq(rdma_cm_id* id);
}

namespace {

bool choose_soft() {
  switch (settings::get().cm) {
    case cm_use::soft:
      return true;
    case cm_use::real:
      return false;
    case cm_use::automatic:
      break;
  }
  const abi::real_device_list real;
  return real.size() == 0;
}

bool is_soft() { return abi::uses_soft_cm(); }

/// With the convention of this library.
template <class Function>
auto guarded(Function function) noexcept {
  return without_exceptions<failure_as::minus_one>(function);
}

}  // namespace

bool abi::uses_soft_cm() {
  static const bool soft = choose_soft();
  return soft;
}

// The soft function if this process uses it, else the real one of that name.
#define RDMAXX_SOFT_OR_REAL(soft, real, ...)                                                   \
  return guarded([&] {                                                                         \
    return is_soft() ? ::softverbs::cm::soft(__VA_ARGS__) : RDMAXX_REAL_CM(real)(__VA_ARGS__); \
  })

rdma_event_channel* rdma_create_event_channel() {
  RDMAXX_SOFT_OR_REAL(create_event_channel, rdma_create_event_channel);
}

void rdma_destroy_event_channel(rdma_event_channel* channel) {
  RDMAXX_SOFT_OR_REAL(destroy_event_channel, rdma_destroy_event_channel, channel);
}

int rdma_create_id(rdma_event_channel* channel, rdma_cm_id** id, void* context,
                   rdma_port_space ps) {
  RDMAXX_SOFT_OR_REAL(create_id, rdma_create_id, channel, id, context, ps);
}

int rdma_create_ep(rdma_cm_id** id, rdma_addrinfo* res, ibv_pd* pd, ibv_qp_init_attr* attributes) {
  RDMAXX_SOFT_OR_REAL(create_ep, rdma_create_ep, id, res, pd, attributes);
}

void rdma_destroy_ep(rdma_cm_id* id) { RDMAXX_SOFT_OR_REAL(destroy_ep, rdma_destroy_ep, id); }

int rdma_destroy_id(rdma_cm_id* id) { RDMAXX_SOFT_OR_REAL(destroy_id, rdma_destroy_id, id); }

int rdma_bind_addr(rdma_cm_id* id, sockaddr* address) {
  RDMAXX_SOFT_OR_REAL(bind_addr, rdma_bind_addr, id, address);
}

// Nothing takes time here: the timeouts of addresses and routes have no meaning, only a form.
int rdma_resolve_addr(rdma_cm_id* id, sockaddr* source, sockaddr* destination, int timeout_ms) {
  return guarded([&] {
    return is_soft() ? cm::resolve_addr(id, source, destination)
                     : RDMAXX_REAL_CM(rdma_resolve_addr)(id, source, destination, timeout_ms);
  });
}

int rdma_resolve_route(rdma_cm_id* id, int timeout_ms) {
  return guarded([&] {
    if (!is_soft()) return RDMAXX_REAL_CM(rdma_resolve_route)(id, timeout_ms);
    if (timeout_ms != 0) return cm::resolve_route(id);
    errno = EINVAL;
    return -1;
  });
}

int rdma_create_qp(rdma_cm_id* id, ibv_pd* pd, ibv_qp_init_attr* attributes) {
  RDMAXX_SOFT_OR_REAL(create_qp, rdma_create_qp, id, pd, attributes);
}

int rdma_create_qp_ex(rdma_cm_id* id, ibv_qp_init_attr_ex* attributes) {
  RDMAXX_SOFT_OR_REAL(create_qp_ex, rdma_create_qp_ex, id, attributes);
}

void rdma_destroy_qp(rdma_cm_id* id) { RDMAXX_SOFT_OR_REAL(destroy_qp, rdma_destroy_qp, id); }

int rdma_connect(rdma_cm_id* id, rdma_conn_param* terms) {
  RDMAXX_SOFT_OR_REAL(connect, rdma_connect, id, terms);
}

int rdma_establish(rdma_cm_id* id) { RDMAXX_SOFT_OR_REAL(establish, rdma_establish, id); }

int rdma_listen(rdma_cm_id* id, int backlog) {
  RDMAXX_SOFT_OR_REAL(listen, rdma_listen, id, backlog);
}

int rdma_get_request(rdma_cm_id* listener, rdma_cm_id** id) {
  RDMAXX_SOFT_OR_REAL(get_request, rdma_get_request, listener, id);
}

int rdma_accept(rdma_cm_id* id, rdma_conn_param* terms) {
  RDMAXX_SOFT_OR_REAL(accept, rdma_accept, id, terms);
}

int rdma_reject(rdma_cm_id* id, const void* private_data, std::uint8_t bytes) {
  RDMAXX_SOFT_OR_REAL(reject, rdma_reject, id, private_data, bytes);
}

int rdma_reject_ece(rdma_cm_id* id, const void* private_data, std::uint8_t bytes) {
  RDMAXX_SOFT_OR_REAL(reject_ece, rdma_reject_ece, id, private_data, bytes);
}

int rdma_notify(rdma_cm_id* id, ibv_event_type event) {
  RDMAXX_SOFT_OR_REAL(notify, rdma_notify, id, event);
}

int rdma_disconnect(rdma_cm_id* id) { RDMAXX_SOFT_OR_REAL(disconnect, rdma_disconnect, id); }

int rdma_join_multicast(rdma_cm_id* id, sockaddr* address, void* context) {
  RDMAXX_SOFT_OR_REAL(join_multicast, rdma_join_multicast, id, address, context);
}

int rdma_leave_multicast(rdma_cm_id* id, sockaddr* address) {
  RDMAXX_SOFT_OR_REAL(leave_multicast, rdma_leave_multicast, id, address);
}

int rdma_join_multicast_ex(rdma_cm_id* id, rdma_cm_join_mc_attr_ex* group, void* context) {
  return guarded([&] {
    if (!is_soft()) return RDMAXX_REAL_CM(rdma_join_multicast_ex)(id, group, context);
    constexpr std::uint32_t needed = RDMA_CM_JOIN_MC_ATTR_ADDRESS | RDMA_CM_JOIN_MC_ATTR_JOIN_FLAGS;
    if (group->comp_mask >= RDMA_CM_JOIN_MC_ATTR_RESERVED) {
      errno = EOPNOTSUPP;
      return -1;
    }
    if ((group->comp_mask & needed) != needed || group->join_flags >= RDMA_MC_JOIN_FLAG_RESERVED) {
      errno = EINVAL;
      return -1;
    }
    return cm::join_multicast(id, group->addr, context);
  });
}

int rdma_get_cm_event(rdma_event_channel* channel, rdma_cm_event** event) {
  RDMAXX_SOFT_OR_REAL(get_cm_event, rdma_get_cm_event, channel, event);
}

int rdma_ack_cm_event(rdma_cm_event* event) {
  RDMAXX_SOFT_OR_REAL(ack_cm_event, rdma_ack_cm_event, event);
}

__be16 rdma_get_src_port(rdma_cm_id* id) { RDMAXX_SOFT_OR_REAL(src_port, rdma_get_src_port, id); }

__be16 rdma_get_dst_port(rdma_cm_id* id) { RDMAXX_SOFT_OR_REAL(dst_port, rdma_get_dst_port, id); }

ibv_context** rdma_get_devices(int* count) {
  RDMAXX_SOFT_OR_REAL(get_devices, rdma_get_devices, count);
}

void rdma_free_devices(ibv_context** list) {
  RDMAXX_SOFT_OR_REAL(free_devices, rdma_free_devices, list);
}

int rdma_set_option(rdma_cm_id* id, int level, int option, void* value, std::size_t bytes) {
  RDMAXX_SOFT_OR_REAL(set_option, rdma_set_option, id, level, option, value, bytes);
}

int rdma_migrate_id(rdma_cm_id* id, rdma_event_channel* channel) {
  RDMAXX_SOFT_OR_REAL(migrate_id, rdma_migrate_id, id, channel);
}

int rdma_getaddrinfo(const char* node, const char* service, const rdma_addrinfo* hints,
                     rdma_addrinfo** res) {
  RDMAXX_SOFT_OR_REAL(getaddrinfo, rdma_getaddrinfo, node, service, hints, res);
}

void rdma_freeaddrinfo(rdma_addrinfo* res) {
  RDMAXX_SOFT_OR_REAL(freeaddrinfo, rdma_freeaddrinfo, res);
}

int rdma_init_qp_attr(rdma_cm_id* id, ibv_qp_attr* attributes, int* mask) {
  RDMAXX_SOFT_OR_REAL(init_qp_attr, rdma_init_qp_attr, id, attributes, mask);
}

int rdma_create_srq(rdma_cm_id* id, ibv_pd* pd, ibv_srq_init_attr* attributes) {
  RDMAXX_SOFT_OR_REAL(create_srq, rdma_create_srq, id, pd, attributes);
}

int rdma_create_srq_ex(rdma_cm_id* id, ibv_srq_init_attr_ex* attributes) {
  RDMAXX_SOFT_OR_REAL(create_srq_ex, rdma_create_srq_ex, id, attributes);
}

void rdma_destroy_srq(rdma_cm_id* id) { RDMAXX_SOFT_OR_REAL(destroy_srq, rdma_destroy_srq, id); }

int rdma_set_local_ece(rdma_cm_id* id, ibv_ece* ece) {
  RDMAXX_SOFT_OR_REAL(set_local_ece, rdma_set_local_ece, id, ece);
}

int rdma_get_remote_ece(rdma_cm_id* id, ibv_ece* ece) {
  RDMAXX_SOFT_OR_REAL(get_remote_ece, rdma_get_remote_ece, id, ece);
}

const char* rdma_event_str(rdma_cm_event_type event) {
  switch (event) {
    case RDMA_CM_EVENT_ADDR_RESOLVED:
      return "RDMA_CM_EVENT_ADDR_RESOLVED";
    case RDMA_CM_EVENT_ADDR_ERROR:
      return "RDMA_CM_EVENT_ADDR_ERROR";
    case RDMA_CM_EVENT_ROUTE_RESOLVED:
      return "RDMA_CM_EVENT_ROUTE_RESOLVED";
    case RDMA_CM_EVENT_ROUTE_ERROR:
      return "RDMA_CM_EVENT_ROUTE_ERROR";
    case RDMA_CM_EVENT_CONNECT_REQUEST:
      return "RDMA_CM_EVENT_CONNECT_REQUEST";
    case RDMA_CM_EVENT_CONNECT_RESPONSE:
      return "RDMA_CM_EVENT_CONNECT_RESPONSE";
    case RDMA_CM_EVENT_CONNECT_ERROR:
      return "RDMA_CM_EVENT_CONNECT_ERROR";
    case RDMA_CM_EVENT_UNREACHABLE:
      return "RDMA_CM_EVENT_UNREACHABLE";
    case RDMA_CM_EVENT_REJECTED:
      return "RDMA_CM_EVENT_REJECTED";
    case RDMA_CM_EVENT_ESTABLISHED:
      return "RDMA_CM_EVENT_ESTABLISHED";
    case RDMA_CM_EVENT_DISCONNECTED:
      return "RDMA_CM_EVENT_DISCONNECTED";
    case RDMA_CM_EVENT_DEVICE_REMOVAL:
      return "RDMA_CM_EVENT_DEVICE_REMOVAL";
    case RDMA_CM_EVENT_MULTICAST_JOIN:
      return "RDMA_CM_EVENT_MULTICAST_JOIN";
    case RDMA_CM_EVENT_MULTICAST_ERROR:
      return "RDMA_CM_EVENT_MULTICAST_ERROR";
    case RDMA_CM_EVENT_ADDR_CHANGE:
      return "RDMA_CM_EVENT_ADDR_CHANGE";
    case RDMA_CM_EVENT_TIMEWAIT_EXIT:
      return "RDMA_CM_EVENT_TIMEWAIT_EXIT";
  }
  return "UNKNOWN EVENT";
}
