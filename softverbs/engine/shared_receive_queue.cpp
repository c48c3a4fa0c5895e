#include <engine/shared_receive_queue.hpp>

#include <algorithm>
#include <cerrno>

#include <base/settings.hpp>
#include <engine/device_context.hpp>
#include <engine/memory_objects.hpp>
#include <engine/verbs_requests.hpp>

namespace softverbs::engine {

int shared_receive_queue::post(const ibv_recv_wr& request) {
  return queue_.with_queue([&](transport::receive_queue& queue) { return push(queue, request); });
}

bool shared_receive_queue::take(transport::receive_work& out) {
  using taken = transport::shared_receive_queue::taken;
  const auto found = queue_.take(out);
  if (found == taken::nothing) return false;
  out.domain = domain_of(pd);
  out.completes_to = cq;
  if (found == taken::request_below_limit) owner.raise(IBV_EVENT_SRQ_LIMIT_REACHED, *this);
  return true;
}

int shared_receive_queue::modify(const ibv_srq_attr& wanted, int mask) {
  if ((mask & ~(IBV_SRQ_MAX_WR | IBV_SRQ_LIMIT)) != 0) return EINVAL;
  std::optional<unsigned> capacity;
  std::optional<unsigned> limit;
  if ((mask & IBV_SRQ_MAX_WR) != 0) capacity = wanted.max_wr;
  if ((mask & IBV_SRQ_LIMIT) != 0) limit = wanted.srq_limit;
  if (capacity && (*capacity == 0 || *capacity > settings::get().max_qp_wr)) return EINVAL;
  return queue_.change(capacity, limit) ? 0 : EINVAL;
}

ibv_srq_attr shared_receive_queue::query() const {
  const auto now = queue_.current();
  return {.max_wr = now.capacity, .max_sge = now.most_elements, .srq_limit = now.limit};
}

srq_directory& srq_directory::of_process() {
  static auto* const directory = new srq_directory;
  return *directory;
}

void srq_directory::add(shared_receive_queue& srq) {
  const std::lock_guard lock(mutex_);
  auto place = std::ranges::find(queues_, nullptr);
  if (place == queues_.end()) place = queues_.insert(place, nullptr);
  *place = &srq;
  srq.number = static_cast<std::uint32_t>(place - queues_.begin()) + 1;
}

void srq_directory::remove(shared_receive_queue& srq) {
  const std::lock_guard lock(mutex_);
  queues_[srq.number - 1] = nullptr;
}

shared_receive_queue* srq_directory::find(const xrc_domain* domain, std::uint32_t number) {
  if (number == 0 || number > queues_.size()) return nullptr;
  auto* const found = queues_[number - 1];
  return found != nullptr && found->domain->who == domain->who ? found : nullptr;
}

}  // namespace softverbs::engine
