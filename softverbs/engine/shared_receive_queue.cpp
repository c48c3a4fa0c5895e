#include <engine/shared_receive_queue.hpp>

#include <algorithm>
#include <cerrno>

#include <base/settings.hpp>
#include <engine/device_context.hpp>
#include <engine/memory_objects.hpp>
#include <engine/verbs_requests.hpp>

namespace softverbs::engine {

int shared_receive_queue::post(const ibv_recv_wr& request) {
  const std::lock_guard lock(mutex_);
  return push(queue_, request);
}

bool shared_receive_queue::take(transport::receive_work& out) {
  const std::lock_guard lock(mutex_);
  if (queue_.is_empty()) return false;
  queue_.pop(out);
  out.domain = domain_of(pd);
  out.completes_to = cq;
  if (limit_ != 0 && queue_.size() < limit_) {
    limit_ = 0;  // one event for each arming
    owner.raise(IBV_EVENT_SRQ_LIMIT_REACHED, *this);
  }
  return true;
}

int shared_receive_queue::modify(const ibv_srq_attr& wanted, int mask) {
  const std::lock_guard lock(mutex_);
  const unsigned capacity = (mask & IBV_SRQ_MAX_WR) != 0 ? wanted.max_wr : queue_.capacity();
  if ((mask & ~(IBV_SRQ_MAX_WR | IBV_SRQ_LIMIT)) != 0) return EINVAL;
  if (capacity == 0 || capacity > settings::get().max_qp_wr) return EINVAL;
  if ((mask & IBV_SRQ_LIMIT) != 0 && wanted.srq_limit > capacity) return EINVAL;
  if ((mask & IBV_SRQ_MAX_WR) != 0) {
    if (!queue_.resize(capacity)) return EINVAL;
  }
  if ((mask & IBV_SRQ_LIMIT) != 0) limit_ = wanted.srq_limit;
  return 0;
}

ibv_srq_attr shared_receive_queue::query() const {
  const std::lock_guard lock(mutex_);
  return {.max_wr = queue_.capacity(), .max_sge = queue_.most_elements(), .srq_limit = limit_};
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
