// The functions of librdmacm that do several steps at once (rdma_create_ep, rdma_get_request), and
// the list of devices.
#include <algorithm>
#include <cerrno>
#include <memory>
#include <new>

#include <cm/api_call.hpp>
#include <cm/cm_id.hpp>
#include <cm/local_device.hpp>
#include <cm/soft_cm.hpp>

namespace softverbs::cm {

int create_ep(rdma_cm_id** id, rdma_addrinfo* info, ibv_pd* pd, ibv_qp_init_attr* attributes) {
  rdma_cm_id* made = nullptr;
  if (make_id(nullptr, &made, nullptr, static_cast<rdma_port_space>(info->ai_port_space),
              static_cast<ibv_qp_type>(info->ai_qp_type)) != 0)
    return -1;
  auto& who = cm_id::of(made);
  int failed = 0;
  if ((info->ai_flags & RAI_PASSIVE) != 0) {
    failed = bind_addr(made, info->ai_src_addr);
    if (failed == 0 && attributes != nullptr) {
      who.ep_qp_attributes = std::make_unique<ibv_qp_init_attr>(*attributes);
      who.ep_qp_attributes->qp_type = static_cast<ibv_qp_type>(info->ai_qp_type);
      who.ep_pd = pd;
    }
  } else {
    failed = resolve_addr(made, info->ai_src_addr, info->ai_dst_addr);
    if (failed == 0) failed = resolve_route(made);
    if (failed == 0 && attributes != nullptr) {
      attributes->qp_type = static_cast<ibv_qp_type>(info->ai_qp_type);
      failed = create_qp(made, pd, attributes);
    }
  }
  if (failed == 0) {
    *id = made;
    return 0;
  }
  const int failure = errno;
  destroy_ep(made);
  return result(failure);
}

void destroy_ep(rdma_cm_id* id) {
  if (id->qp != nullptr) destroy_qp(id);
  if (id->srq != nullptr) destroy_srq(id);
  static_cast<void>(destroy_id(id));
}

int get_request(rdma_cm_id* listener, rdma_cm_id** id) {
  auto& who = cm_id::of(listener);
  if (!who.events.is_synchronous()) return result(EINVAL);
  acknowledge_held_event(listener);
  rdma_cm_event* event = nullptr;
  if (get_cm_event(listener->channel, &event) != 0) return -1;
  if (event->event != RDMA_CM_EVENT_CONNECT_REQUEST) {
    listener->event = event;
    return result(EINVAL);
  }
  if (who.ep_qp_attributes != nullptr) {
    auto attributes = *who.ep_qp_attributes;
    if (create_qp(event->id, who.ep_pd, &attributes) != 0) {
      listener->event = event;
      return -1;
    }
  }
  *id = event->id;
  (*id)->event = event;
  return 0;
}

ibv_context** get_devices(int* count) {
  const auto devices = local_devices();
  if (devices.empty()) return nullptr;
  auto** const list = new (std::nothrow) ibv_context*[devices.size() + 1];
  if (list == nullptr) return nullptr;
  std::ranges::transform(devices, list, [](const local_device* each) { return each->verbs; });
  list[devices.size()] = nullptr;
  if (count != nullptr) *count = static_cast<int>(devices.size());
  return list;
}

void free_devices(ibv_context** list) { delete[] list; }

}  // namespace softverbs::cm
