#include <engine/completion_queue.hpp>

#include <algorithm>
#include <cerrno>
#include <ctime>

#include <base/log.hpp>
#include <engine/device_context.hpp>

namespace softverbs::engine {

completion_queue::completion_queue(device_context& device, unsigned capacity,
                                   completion_channel* events_go_to, void* user_context)
    : ibv_cq_ex{}, owner(device), ring_(capacity) {
  ibv_cq_ex::context = device.as_ibv();
  channel = events_go_to;
  cq_context = user_context;
  cqe = static_cast<int>(capacity);
  if (events_go_to != nullptr) ++events_go_to->queues;
}

completion_queue::~completion_queue() {
  if (const auto all = overflows_.ended())
    log(log_level::error, "completion queue of {} entries has lost {} completions in all", cqe,
        *all);
  if (channel == nullptr) return;
  --static_cast<completion_channel*>(channel)->queues;
}

bool completion_queue::push(const ibv_wc& wc, bool solicited) {
  const std::lock_guard lock(mutex_);
  if (head_ - tail_ == ring_.size()) {
    if (!ignores_overruns) {
      has_overflowed_again(wc.qp_num);
      return false;
    }
    ++tail_;
  }
  auto& entry = ring_[head_ % ring_.size()];
  entry.wc = wc;
  if (with_timestamps) {
    timespec now{};
    ::clock_gettime(CLOCK_REALTIME, &now);
    entry.timestamp_ns = static_cast<std::uint64_t>(now.tv_sec) * 1'000'000'000 +
                         static_cast<std::uint64_t>(now.tv_nsec);
  }
  const bool wakes_all = solicited || wc.status != IBV_WC_SUCCESS;
  holds_solicited_ = wakes_all || (holds_solicited_ && head_ != tail_);
  ++head_;
  queued_.store(head_ - tail_, std::memory_order_release);
  if (armed_ == arming::any || (armed_ == arming::solicited && wakes_all)) raise_event();
  return true;
}

void completion_queue::raise_event() noexcept {
  armed_ = arming::none;
  if (channel != nullptr) {
    push_counted(completion_events, static_cast<completion_channel*>(channel)->events, this);
  }
}

void completion_queue::has_overflowed_again(std::uint32_t qpn) {
  if (!overflowed_.exchange(true)) owner.raise(IBV_EVENT_CQ_ERR, *this);
  if (const auto lost = overflows_.occurred(clock::now())) {
    log(log_level::error,
        "completion queue of {} entries overflowed (queue pair {:#x}; {} completions lost so far): "
        "it needs room for every request that may complete",
        cqe, qpn, *lost);
  }
}

int completion_queue::pop(int most, ibv_wc* out) {
  const std::lock_guard reader(reader_mutex_);
  const std::lock_guard lock(mutex_);
  const auto count =
      std::min<std::uint64_t>(head_ - tail_, static_cast<std::uint64_t>(std::max(most, 0)));
  for (std::uint64_t i = 0; i < count; ++i) out[i] = ring_[(tail_ + i) % ring_.size()].wc;
  tail_ += count;
  queued_.store(head_ - tail_, std::memory_order_release);
  reader_knows_all(static_cast<int>(count) < most);
  return static_cast<int>(count);
}

void completion_queue::arm(bool solicited_only) {
  const std::lock_guard lock(mutex_);
  // An armed queue is never weakened (10.2.2: the next completion takes precedence).
  if (!solicited_only) {
    armed_ = arming::any;
  } else if (armed_ == arming::none) {
    armed_ = arming::solicited;
  }
  // What came after the reader saw the queue empty is no old completion to it, and it may go to
  // sleep now: as hardware does, whose arming tells up to where the queue was read. UCX relies on
  // it.
  const bool missed = head_ != tail_ && known_all_.load(std::memory_order_relaxed);
  if (missed && (armed_ == arming::any || holds_solicited_)) raise_event();
}

int completion_queue::resize(unsigned capacity) {
  const std::lock_guard reader(reader_mutex_);
  const std::lock_guard lock(mutex_);
  const auto held = head_ - tail_;
  if (capacity < held) return EINVAL;
  std::vector<completion> larger(capacity);
  for (std::uint64_t i = 0; i < held; ++i) larger[i] = ring_[(tail_ + i) % ring_.size()];
  ring_.swap(larger);
  tail_ = 0;
  head_ = held;
  cqe = static_cast<int>(capacity);
  return 0;
}

void completion_queue::show_current() {
  wr_id = current().wc.wr_id;
  status = current().wc.status;
}

bool completion_queue::begin_reading() {
  reader_mutex_.lock();
  {
    const std::lock_guard lock(mutex_);
    if (head_ != tail_) {
      read_ = tail_;
      show_current();
      reader_knows_all(false);
      return true;
    }
    reader_knows_all(true);
  }
  reader_mutex_.unlock();
  return false;
}

bool completion_queue::next() {
  const std::lock_guard lock(mutex_);
  const auto following = std::max(read_ + 1, tail_);  // what the reader was at may be overwritten
  if (following == head_) {
    reader_knows_all(true);
    return false;
  }
  read_ = following;
  show_current();
  return true;
}

void completion_queue::end_reading() {
  {
    const std::lock_guard lock(mutex_);
    tail_ = std::max(read_ + 1, tail_);
    queued_.store(head_ - tail_, std::memory_order_release);
  }
  reader_mutex_.unlock();
}

}  // namespace softverbs::engine
