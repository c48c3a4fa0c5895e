// Completion queues and channels, and the asynchronous events of a context.
#include <cerrno>
#include <memory>

#include <base/settings.hpp>
#include <engine/completion_queue.hpp>
#include <engine/device_context.hpp>
#include <engine/queue_pair.hpp>
#include <engine/shared_receive_queue.hpp>
#include <verbs/objects.hpp>
#include <verbs/soft_verbs.hpp>

namespace softverbs::verbs {
namespace {

using engine::completion_channel;
using engine::completion_queue;

int poll_cq(ibv_cq* cq, int most, ibv_wc* out) {
  auto& queue = completion_queue::of(cq);
  if (!queue.owner.is_alive()) return -belongs_to_parent;
  if (queue.is_empty()) {
    const engine::entry_scope entry;
    queue.owner.place->poll();
  }
  if (!queue.is_empty()) return queue.pop(most, out);
  queue.found_empty();
  return 0;
}

int req_notify_cq(ibv_cq* cq, int solicited_only) {
  auto& queue = completion_queue::of(cq);
  if (!queue.owner.is_alive()) return belongs_to_parent;
  queue.arm(solicited_only != 0);
  queue.owner.place->user_sleeps();
  return 0;
}

// --- the extended interface ---

completion_queue& of(ibv_cq_ex* cq) { return *static_cast<completion_queue*>(cq); }
const ibv_wc& current(ibv_cq_ex* cq) { return of(cq).current().wc; }

int start_poll(ibv_cq_ex* cq, ibv_poll_cq_attr* attributes) {
  auto& queue = of(cq);
  if (attributes->comp_mask != 0) return EINVAL;
  if (!queue.owner.is_alive()) return belongs_to_parent;
  if (queue.is_empty()) {
    const engine::entry_scope entry;
    queue.owner.place->poll();
  }
  return queue.begin_reading() ? 0 : ENOENT;
}

void set_readers(ibv_cq_ex& cq) {
  cq.start_poll = c_function<start_poll>;
  cq.next_poll = [](ibv_cq_ex* queue) { return of(queue).next() ? 0 : ENOENT; };
  cq.end_poll = [](ibv_cq_ex* queue) { of(queue).end_reading(); };
  cq.read_opcode = [](ibv_cq_ex* queue) { return current(queue).opcode; };
  cq.read_vendor_err = [](ibv_cq_ex* queue) { return current(queue).vendor_err; };
  cq.read_byte_len = [](ibv_cq_ex* queue) { return current(queue).byte_len; };
  cq.read_imm_data = [](ibv_cq_ex* queue) { return current(queue).imm_data; };
  cq.read_qp_num = [](ibv_cq_ex* queue) { return current(queue).qp_num; };
  cq.read_src_qp = [](ibv_cq_ex* queue) { return current(queue).src_qp; };
  cq.read_wc_flags = [](ibv_cq_ex* queue) { return current(queue).wc_flags; };
  cq.read_slid = [](ibv_cq_ex* queue) { return std::uint32_t{current(queue).slid}; };
  cq.read_sl = [](ibv_cq_ex* queue) { return current(queue).sl; };
  cq.read_dlid_path_bits = [](ibv_cq_ex* queue) { return current(queue).dlid_path_bits; };
  cq.read_completion_ts = [](ibv_cq_ex* queue) { return of(queue).current().timestamp_ns; };
  cq.read_completion_wallclock_ns = cq.read_completion_ts;
}

completion_queue* make_cq(ibv_context* context, std::uint64_t entries, void* cq_context,
                          ibv_comp_channel* channel, std::uint64_t vector) {
  auto& owner = context_of(context);
  if (const int refusal = owner.refuses("ibv_create_cq")) return failed<completion_queue>(refusal);
  if (entries == 0 || entries > settings::get().max_cqe) return failed<completion_queue>(EINVAL);
  if (vector >= static_cast<std::uint64_t>(context->num_comp_vectors))
    return failed<completion_queue>(EINVAL);
  auto cq = std::make_unique<completion_queue>(
      owner, static_cast<unsigned>(entries), static_cast<completion_channel*>(channel), cq_context);
  if (!owner.place->completion_queues.add(settings::get().max_cq))
    return failed<completion_queue>(ENOMEM);
  set_readers(*cq);
  ++owner.objects;
  return cq.release();
}

ibv_cq_ex* create_cq_ex(ibv_context* context, ibv_cq_init_attr_ex* wanted) {
  constexpr std::uint64_t known = std::uint64_t{IBV_WC_STANDARD_FLAGS} |
                                  IBV_WC_EX_WITH_COMPLETION_TIMESTAMP |
                                  IBV_WC_EX_WITH_COMPLETION_TIMESTAMP_WALLCLOCK;
  constexpr std::uint32_t known_flags =
      std::uint32_t{IBV_CREATE_CQ_ATTR_SINGLE_THREADED} | IBV_CREATE_CQ_ATTR_IGNORE_OVERRUN;
  if ((wanted->wc_flags & ~known) != 0) return failed<ibv_cq_ex>(EOPNOTSUPP);
  if ((wanted->comp_mask & ~std::uint32_t{IBV_CQ_INIT_ATTR_MASK_FLAGS}) != 0)
    return failed<ibv_cq_ex>(EOPNOTSUPP);
  if ((wanted->comp_mask & IBV_CQ_INIT_ATTR_MASK_FLAGS) != 0 && (wanted->flags & ~known_flags) != 0)
    return failed<ibv_cq_ex>(EOPNOTSUPP);
  auto* const cq =
      make_cq(context, wanted->cqe, wanted->cq_context, wanted->channel, wanted->comp_vector);
  if (cq == nullptr) return nullptr;
  cq->ignores_overruns = (wanted->comp_mask & IBV_CQ_INIT_ATTR_MASK_FLAGS) != 0 &&
                         (wanted->flags & IBV_CREATE_CQ_ATTR_IGNORE_OVERRUN) != 0;
  cq->with_timestamps = (wanted->wc_flags & (IBV_WC_EX_WITH_COMPLETION_TIMESTAMP |
                                             IBV_WC_EX_WITH_COMPLETION_TIMESTAMP_WALLCLOCK)) != 0;
  return cq;
}

engine::event_account* account_of(const ibv_async_event& event) {
  switch (event.event_type) {
    case IBV_EVENT_CQ_ERR:
      return &completion_queue::of(event.element.cq).asynchronous_events;
    case IBV_EVENT_QP_FATAL:
    case IBV_EVENT_QP_REQ_ERR:
    case IBV_EVENT_QP_ACCESS_ERR:
    case IBV_EVENT_COMM_EST:
    case IBV_EVENT_SQ_DRAINED:
    case IBV_EVENT_PATH_MIG:
    case IBV_EVENT_PATH_MIG_ERR:
    case IBV_EVENT_QP_LAST_WQE_REACHED:
      return &engine::queue_pair::of(event.element.qp).asynchronous_events;
    case IBV_EVENT_SRQ_ERR:
    case IBV_EVENT_SRQ_LIMIT_REACHED:
      return &engine::shared_receive_queue::of(event.element.srq).asynchronous_events;
    default:
      return nullptr;
  }
}

}  // namespace

bool is_soft(const ibv_context* context) noexcept {
  return context != nullptr &&
         context->ops.poll_cq == c_function<poll_cq, failure_as::negated_errno>;
}

void set_completion_functions(verbs_context& verbs) {
  verbs.context.ops.poll_cq = c_function<poll_cq, failure_as::negated_errno>;
  verbs.context.ops.req_notify_cq = c_function<req_notify_cq>;
  verbs.create_cq_ex = c_function<create_cq_ex>;
}

ibv_comp_channel* create_comp_channel(ibv_context* context) {
  auto& owner = context_of(context);
  if (const int refusal = owner.refuses("ibv_create_comp_channel"))
    return failed<ibv_comp_channel>(refusal);
  auto channel = std::make_unique<completion_channel>();
  if (channel->events.fd() < 0) return failed<ibv_comp_channel>(EMFILE);
  channel->context = context;
  channel->fd = channel->events.fd();
  channel->refcnt = 0;
  ++owner.objects;
  return channel.release();
}

int destroy_comp_channel(ibv_comp_channel* channel) {
  auto& own = *static_cast<completion_channel*>(channel);
  auto& owner = context_of(channel->context);
  if (!owner.is_alive()) return belongs_to_parent;
  if (own.queues != 0) return EBUSY;
  delete &own;
  --owner.objects;
  return 0;
}

ibv_cq* create_cq(ibv_context* context, int entries, void* cq_context, ibv_comp_channel* channel,
                  int vector) {
  if (entries <= 0 || vector < 0) return failed<ibv_cq>(EINVAL);
  auto* const cq = make_cq(context, static_cast<unsigned>(entries), cq_context, channel,
                           static_cast<unsigned>(vector));
  return cq == nullptr ? nullptr : cq->as_cq();
}

int resize_cq(ibv_cq* cq, int entries) {
  auto& queue = completion_queue::of(cq);
  if (const int refusal = queue.owner.refuses("ibv_resize_cq")) return refusal;
  if (entries <= 0 || static_cast<unsigned>(entries) > settings::get().max_cqe) return EINVAL;
  return queue.resize(static_cast<unsigned>(entries));
}

int destroy_cq(ibv_cq* cq) {
  auto& queue = completion_queue::of(cq);
  auto& owner = queue.owner;
  if (!owner.is_alive()) return belongs_to_parent;
  if (queue.users != 0) return EBUSY;
  // Events that nobody has taken go with the queue; those that were taken are waited for.
  queue.asynchronous_events.acknowledged(owner.events.remove_if([&](const ibv_async_event& event) {
    return event.event_type == IBV_EVENT_CQ_ERR && event.element.cq == cq;
  }));
  if (cq->channel != nullptr) {
    auto& events = static_cast<completion_channel*>(cq->channel)->events;
    queue.completion_events.acknowledged(
        events.remove_if([&](const completion_queue* each) { return each == &queue; }));
  }
  queue.completion_events.wait_until_balanced();
  queue.asynchronous_events.wait_until_balanced();
  delete &queue;
  owner.place->completion_queues.remove();
  --owner.objects;
  return 0;
}

int get_cq_event(ibv_comp_channel* channel, ibv_cq** cq, void** cq_context) {
  auto& own = *static_cast<completion_channel*>(channel);
  if (!context_of(channel->context).is_alive()) {
    errno = belongs_to_parent;
    return -1;
  }
  const auto event = own.events.take();
  if (!event) return -1;
  *cq = (*event)->as_cq();
  *cq_context = (*cq)->cq_context;
  return 0;
}

void ack_cq_events(ibv_cq* cq, unsigned count) {
  if (count == 0) return;
  completion_queue::of(cq).completion_events.acknowledged(count);
}

int get_async_event(ibv_context* context, ibv_async_event* event) {
  auto& owner = context_of(context);
  if (!owner.is_alive()) {
    errno = belongs_to_parent;
    return -1;
  }
  const auto found = owner.events.take();
  if (!found) return -1;
  *event = *found;
  return 0;
}

void ack_async_event(ibv_async_event* event) {
  if (auto* const account = account_of(*event)) account->acknowledged(1);
}

}  // namespace softverbs::verbs
