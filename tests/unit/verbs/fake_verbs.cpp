#include "unit/verbs/fake_verbs.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <span>
#include <utility>

#include <sys/eventfd.h>
#include <unistd.h>

namespace {

fake_device& device_of(ibv_context* context) { return static_cast<fake_device&>(*context); }

ibv_wc flushed(const ibv_qp& qp, std::uint64_t wr_id) {
  ibv_wc completion{};
  completion.wr_id = wr_id;
  completion.status = IBV_WC_WR_FLUSH_ERR;
  completion.qp_num = qp.qp_num;
  return completion;
}

template <class Native>
int post(fake_qp& qp, std::vector<posted<Native>>& into, ibv_cq* reports_to, Native* first,
         Native** refused) {
  for (Native* request = first; request != nullptr; request = request->next) {
    if (qp.accepts == 0) {
      if (qp.tells_refused) *refused = request;
      errno = qp.refusal;
      return qp.refusal;
    }
    --qp.accepts;
    const std::span list(request->sg_list, static_cast<std::size_t>(request->num_sge));
    into.push_back({*request, {list.begin(), list.end()}});
    if (qp.attributes.qp_state == IBV_QPS_ERR) {
      static_cast<fake_cq&>(*reports_to).completions.push_back(flushed(qp, request->wr_id));
    }
  }
  return 0;
}

int post_send(ibv_qp* native, ibv_send_wr* first, ibv_send_wr** refused) {
  auto& qp = static_cast<fake_qp&>(*native);
  return post(qp, qp.sends, qp.send_cq, first, refused);
}

int post_recv(ibv_qp* native, ibv_recv_wr* first, ibv_recv_wr** refused) {
  auto& qp = static_cast<fake_qp&>(*native);
  return post(qp, qp.recvs, qp.recv_cq, first, refused);
}

int poll_cq(ibv_cq* native, int count, ibv_wc* into) {
  auto& cq = static_cast<fake_cq&>(*native);
  cq.last_poll_size = count;
  if (cq.poll_failure < 0) return cq.poll_failure;
  int found = 0;
  for (; found < count && !cq.completions.empty(); ++found) {
    into[found] = cq.completions.front();
    cq.completions.pop_front();
  }
  return found;
}

int req_notify_cq(ibv_cq* native, int solicited_only) {
  auto& cq = static_cast<fake_cq&>(*native);
  cq.notifications.push_back(solicited_only);
  return device_of(cq.context).answer("ibv_req_notify_cq");
}

void count_up(int fd) {
  const std::uint64_t one = 1;
  static_cast<void>(!::write(fd, &one, sizeof one));
}

void count_down(int fd) {
  std::uint64_t one = 0;
  static_cast<void>(!::read(fd, &one, sizeof one));
}

int new_event_counter() { return ::eventfd(0, EFD_SEMAPHORE | EFD_CLOEXEC); }

/// Leaves errno at the refusal, as functions that return a null pointer do.
template <class Object, class... Members>
Object* make(ibv_context* context, std::string_view function) {
  if (device_of(context).answer(function) != 0) return nullptr;
  auto* const object = new Object{};
  object->context = context;
  object->handle = device_of(context).next_number();
  return object;
}

}  // namespace

void fake_channel::raise(const rdmaxx::completion_queue& cq) { raise(cq.native()); }

void fake_channel::raise(ibv_cq* cq) {
  events.push_back(static_cast<fake_cq*>(cq));
  count_up(fd);
}

fake_device::fake_device() : ibv_context{} {
  std::strcpy(card_.name, "fake0");
  card_.node_type = IBV_NODE_CA;
  card_.transport_type = IBV_TRANSPORT_IB;
  ibv_context::device = &card_;
  ops.post_send = post_send;
  ops.post_recv = post_recv;
  ops.poll_cq = poll_cq;
  ops.req_notify_cq = req_notify_cq;
  num_comp_vectors = 2;
  async_fd = new_event_counter();
  limits.phys_port_cnt = 1;
  limits.max_qp_wr = 1024;
  limits.max_sge = 8;
  limits.max_cqe = 4096;
  limits.max_mr_size = std::uint64_t{1} << 40;
  limits.max_qp_rd_atom = 128;
  limits.max_qp_init_rd_atom = 128;
  port.state = IBV_PORT_ACTIVE;
  port.max_mtu = IBV_MTU_4096;
  port.active_mtu = IBV_MTU_1024;
  port.gid_tbl_len = 4;
  port.pkey_tbl_len = 1;
  port.link_layer = IBV_LINK_LAYER_ETHERNET;
  ibv_gid_entry address{};
  address.gid.raw[10] = address.gid.raw[11] = 0xff;
  address.gid.raw[12] = 10;
  address.gid.raw[15] = 1;
  address.gid_index = 1;
  address.port_num = 1;
  address.gid_type = IBV_GID_TYPE_ROCE_V2;
  gids.push_back(address);
}

fake_device::~fake_device() { ::close(async_fd); }

rdmaxx::context fake_device::open() {
  return rdmaxx::context::adopt(this, {.kind = rdmaxx::ownership::borrowed}).value();
}

void fake_device::raise(const ibv_async_event& event) {
  async_events.push_back(event);
  count_up(async_fd);
}

int fake_device::answer(std::string_view function) {
  const auto found = refusals_.find(function);
  const int result = found != refusals_.end() ? found->second : 0;
  if (result > 0) errno = result;
  return result;
}

int fake_device::answer_end(std::string_view function) {
  const int result = answer(function);
  if (result == 0) ended.emplace_back(function);
  return result;
}

// ── what stands in for libibverbs
// ───────────────────────────────────────────────────────────────────────

#undef ibv_query_port

extern "C" {

int ibv_close_device(ibv_context* context) {
  return device_of(context).answer_end("ibv_close_device");
}

int ibv_query_device(ibv_context* context, ibv_device_attr* attributes) {
  *attributes = device_of(context).limits;
  return device_of(context).answer("ibv_query_device");
}

int ibv_query_port(ibv_context* context, std::uint8_t, _compat_ibv_port_attr* attributes) {
  *reinterpret_cast<ibv_port_attr*>(attributes) = device_of(context).port;
  return device_of(context).answer("ibv_query_port");
}

int ibv_query_gid(ibv_context* context, std::uint8_t, int index, ibv_gid* address) {
  *address = {};
  for (const auto& entry : device_of(context).gids) {
    if (entry.gid_index == static_cast<std::uint32_t>(index)) *address = entry.gid;
  }
  return device_of(context).answer("ibv_query_gid");
}

ssize_t _ibv_query_gid_table(ibv_context* context, ibv_gid_entry* entries, std::size_t capacity,
                             std::uint32_t, std::size_t) {
  const int result = device_of(context).answer("ibv_query_gid_table");
  if (result != 0) return -result;
  const auto& gids = device_of(context).gids;
  const auto count = std::min(capacity, gids.size());
  std::copy_n(gids.begin(), count, entries);
  return static_cast<ssize_t>(count);
}

int ibv_query_pkey(ibv_context* context, std::uint8_t, int, __be16* key) {
  *key = 0xffff;
  return device_of(context).answer("ibv_query_pkey");
}

ibv_pd* ibv_alloc_pd(ibv_context* context) { return make<ibv_pd>(context, "ibv_alloc_pd"); }

int ibv_dealloc_pd(ibv_pd* pd) {
  const int result = device_of(pd->context).answer_end("ibv_dealloc_pd");
  if (result == 0) delete pd;
  return result;
}

ibv_mr* ibv_reg_mr_iova2(ibv_pd* pd, void* start, std::size_t bytes, std::uint64_t, unsigned) {
  auto* const mr = make<ibv_mr>(pd->context, "ibv_reg_mr");
  if (mr == nullptr) return nullptr;
  mr->pd = pd;
  mr->addr = start;
  mr->length = bytes;
  mr->lkey = 0x100 + mr->handle;
  mr->rkey = 0x200 + mr->handle;
  return mr;
}

int ibv_dereg_mr(ibv_mr* mr) {
  const int result = device_of(mr->context).answer_end("ibv_dereg_mr");
  if (result == 0) delete mr;
  return result;
}

ibv_comp_channel* ibv_create_comp_channel(ibv_context* context) {
  if (device_of(context).answer("ibv_create_comp_channel") != 0) return nullptr;
  auto* const channel = new fake_channel{};
  channel->context = context;
  channel->fd = new_event_counter();
  return channel;
}

int ibv_destroy_comp_channel(ibv_comp_channel* channel) {
  const int result = device_of(channel->context).answer_end("ibv_destroy_comp_channel");
  if (result != 0) return result;
  ::close(channel->fd);
  delete static_cast<fake_channel*>(channel);
  return 0;
}

ibv_cq* ibv_create_cq(ibv_context* context, int capacity, void* cq_context,
                      ibv_comp_channel* channel, int) {
  auto* const cq = make<fake_cq>(context, "ibv_create_cq");
  if (cq == nullptr) return nullptr;
  cq->cqe = capacity;
  cq->cq_context = cq_context;
  cq->channel = channel;
  return cq;
}

int ibv_resize_cq(ibv_cq* cq, int capacity) {
  const int result = device_of(cq->context).answer("ibv_resize_cq");
  if (result == 0) cq->cqe = capacity;
  return result;
}

/// The real one waits for every acknowledgement; here an unacknowledged event is a failure.
int ibv_destroy_cq(ibv_cq* native) {
  auto* const cq = static_cast<fake_cq*>(native);
  if (cq->unacknowledged != 0) return EBUSY;
  const int result = device_of(cq->context).answer_end("ibv_destroy_cq");
  if (result == 0) delete cq;
  return result;
}

int ibv_get_cq_event(ibv_comp_channel* native, ibv_cq** cq, void** cq_context) {
  auto& channel = static_cast<fake_channel&>(*native);
  if (channel.events.empty()) {
    errno = EAGAIN;
    return -1;
  }
  count_down(channel.fd);
  auto* const next = channel.events.front();
  channel.events.pop_front();
  ++next->unacknowledged;
  *cq = next;
  *cq_context = next->cq_context;
  return 0;
}

void ibv_ack_cq_events(ibv_cq* cq, unsigned count) {
  static_cast<fake_cq*>(cq)->unacknowledged -= count;
}

ibv_qp* ibv_create_qp(ibv_pd* pd, ibv_qp_init_attr* wishes) {
  auto* const qp = make<fake_qp>(pd->context, "ibv_create_qp");
  if (qp == nullptr) return nullptr;
  qp->pd = pd;
  qp->qp_context = wishes->qp_context;
  qp->send_cq = wishes->send_cq;
  qp->recv_cq = wishes->recv_cq;
  qp->qp_type = wishes->qp_type;
  qp->qp_num = qp->handle;
  qp->attributes.cap = wishes->cap;
  return qp;
}

int ibv_query_qp(ibv_qp* native, ibv_qp_attr* attributes, int, ibv_qp_init_attr* made_with) {
  *attributes = static_cast<fake_qp*>(native)->attributes;
  *made_with = {};
  return device_of(native->context).answer("ibv_query_qp");
}

int ibv_modify_qp(ibv_qp* native, ibv_qp_attr* wanted, int mask) {
  const int result = device_of(native->context).answer("ibv_modify_qp");
  if (result != 0) return result;
  auto& qp = static_cast<fake_qp&>(*native);
  qp.modifications.push_back(static_cast<std::uint32_t>(mask));
  const auto cap = qp.attributes.cap;
  qp.attributes = *wanted;
  qp.attributes.cap = cap;
  return 0;
}

int ibv_destroy_qp(ibv_qp* native) {
  const int result = device_of(native->context).answer_end("ibv_destroy_qp");
  if (result == 0) delete static_cast<fake_qp*>(native);
  return result;
}

ibv_ah* ibv_create_ah(ibv_pd* pd, ibv_ah_attr*) {
  auto* const ah = make<ibv_ah>(pd->context, "ibv_create_ah");
  if (ah != nullptr) ah->pd = pd;
  return ah;
}

int ibv_destroy_ah(ibv_ah* ah) {
  const int result = device_of(ah->context).answer_end("ibv_destroy_ah");
  if (result == 0) delete ah;
  return result;
}

int ibv_get_async_event(ibv_context* context, ibv_async_event* event) {
  auto& device = device_of(context);
  if (device.async_events.empty()) {
    errno = EAGAIN;
    return -1;
  }
  count_down(device.async_fd);
  *event = device.async_events.front();
  device.async_events.pop_front();
  ++device.unacknowledged_async;
  return 0;
}

}  // extern "C"

namespace {

/// Events name the object they are about, and this way the device it belongs to.
ibv_context* context_of(const ibv_async_event& event) {
  switch (event.event_type) {
    case IBV_EVENT_CQ_ERR:
      return event.element.cq->context;
    case IBV_EVENT_QP_FATAL:
    case IBV_EVENT_COMM_EST:
      return event.element.qp->context;
    default:
      return nullptr;
  }
}

}  // namespace

extern "C" void ibv_ack_async_event(ibv_async_event* event) {
  if (auto* const context = context_of(*event); context != nullptr)
    --device_of(context).unacknowledged_async;
}
