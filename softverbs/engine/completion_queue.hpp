// A completion queue and the channel that its events go to.
//
// Owners: the user, through ibv_create_cq and ibv_destroy_cq. Any thread may push and poll; pushing
// happens with a queue pair's lock held, so nothing here takes one. Destroying waits until every
// event that was taken has been acknowledged.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <utility>
#include <vector>

#include <base/lock_order.hpp>
#include <base/log_limit.hpp>
#include <engine/clock.hpp>
#include <engine/event_fd.hpp>
#include <infiniband/verbs.h>

namespace softverbs::engine {

class completion_queue;
class device_context;

/// What ibv_create_comp_channel gives.
struct completion_channel : ibv_comp_channel {
  event_fd<completion_queue*> events;
  std::atomic<unsigned> queues = 0;
};

/// Counts the events of an object that still have to be acknowledged (or were never taken).
class event_account {
 public:
  void raised() {
    const std::lock_guard lock(mutex_);
    ++raised_;
  }
  void acknowledged(unsigned count) {
    const std::lock_guard lock(mutex_);
    acknowledged_ += count;
    all_.notify_all();
  }
  void wait_until_balanced() {
    std::unique_lock lock(mutex_);
    all_.wait(lock, [this] { return raised_ == acknowledged_; });
  }

 private:
  std::mutex mutex_;
  std::condition_variable all_;
  unsigned raised_ = 0;
  unsigned acknowledged_ = 0;
};

/// An event for which there is no memory is lost, and is not waited for.
template <class Event>
void push_counted(event_account& account, event_fd<Event>& to, Event event) noexcept {
  account.raised();
  try {
    to.push(std::move(event));
  } catch (...) {
    account.acknowledged(1);
  }
}

struct completion {
  ibv_wc wc{};
  std::uint64_t timestamp_ns = 0;  ///< CLOCK_REALTIME, if the queue was created with timestamps
};

class completion_queue : public ibv_cq_ex {
 public:
  completion_queue(device_context& device, unsigned capacity, completion_channel* events_go_to,
                   void* user_context);
  completion_queue(const completion_queue&) = delete;
  completion_queue& operator=(const completion_queue&) = delete;
  ~completion_queue();

  [[nodiscard]] static completion_queue& of(ibv_cq* cq) {
    return *static_cast<completion_queue*>(reinterpret_cast<ibv_cq_ex*>(cq));
  }
  [[nodiscard]] ibv_cq* as_cq() { return reinterpret_cast<ibv_cq*>(static_cast<ibv_cq_ex*>(this)); }

  /// False if the queue was full: the completion is lost, and the queue says so by an event and in
  /// the log. A queue that ignores overruns loses its oldest completion instead, without a word.
  bool push(const ibv_wc& wc, bool solicited);
  /// Up to `most` completions, oldest first.
  int pop(int most, ibv_wc* out);
  [[nodiscard]] bool is_empty() const { return queued_.load(std::memory_order_acquire) == 0; }
  /// A poll found nothing.
  void found_empty() noexcept { reader_knows_all(true); }
  void arm(bool solicited_only);
  [[nodiscard]] int resize(unsigned capacity);
  [[nodiscard]] bool has_overflowed() const { return overflowed_.load(std::memory_order_relaxed); }

  /// The extended interface: one reader at a time, from begin to end. Completions are pushed
  /// meanwhile, also by what the reader itself posts.
  [[nodiscard]] bool begin_reading();
  [[nodiscard]] bool next();
  void end_reading();
  [[nodiscard]] const completion& current() const { return ring_[read_ % ring_.size()]; }

  device_context& owner;
  event_account completion_events;
  event_account asynchronous_events;
  std::atomic<unsigned> users = 0;  ///< queue pairs and SRQs that complete here
  bool with_timestamps = false;
  bool ignores_overruns = false;

 private:
  void show_current();
  void raise_event() noexcept;
  /// Written only when it changes: users poll empty queues all the time.
  void reader_knows_all(bool all) noexcept {
    if (known_all_.load(std::memory_order_relaxed) != all)
      known_all_.store(all, std::memory_order_relaxed);
  }
  void has_overflowed_again(std::uint32_t qpn);

  std::mutex reader_mutex_;  ///< taken before mutex_
  ranked_mutex<lock_rank::completions> mutex_;
  std::vector<completion> ring_;
  std::uint64_t head_ = 0;  ///< next to be written
  std::uint64_t tail_ = 0;  ///< next to be read
  std::uint64_t read_ = 0;  ///< of the reader between begin and end
  std::atomic<std::uint64_t> queued_ = 0;
  std::atomic<bool> known_all_ = false;  ///< the last poll left nothing behind
  bool holds_solicited_ = false;  ///< one of the completions, or a failed one, would wake all
  std::atomic<bool> overflowed_ = false;
  log_limit<clock> overflows_;
  enum class arming : std::uint8_t { none, solicited, any } armed_ = arming::none;
};

}  // namespace softverbs::engine
