// A receive queue that several queue pairs take from, with a limit below which it calls for more
// (10.2.9.5).
//
// Owner: the front end. Any thread may call any function; the lock is taken with a queue pair's
// lock held, never the other way.
#pragma once

#include <cstdint>
#include <mutex>
#include <optional>

#include <base/lock_order.hpp>
#include <transport/receive_queue.hpp>

namespace softverbs::transport {

class shared_receive_queue {
 public:
  shared_receive_queue(unsigned capacity, unsigned most_elements)
      : queue_(capacity, most_elements) {}

  /// Calls `post` with the queue, which it may push to.
  template <class Post>
  auto with_queue(Post post) {
    const std::lock_guard lock(mutex_);
    return post(queue_);
  }

  enum class taken : std::uint8_t { nothing, request, request_below_limit };
  /// The oldest request. The limit is told once for each time that it is set.
  [[nodiscard]] taken take(receive_work& out) {
    const std::lock_guard lock(mutex_);
    if (queue_.is_empty()) return taken::nothing;
    queue_.pop(out);
    if (limit_ == 0 || queue_.size() >= limit_) return taken::request;
    limit_ = 0;
    return taken::request_below_limit;
  }

  struct size {
    unsigned capacity = 0;
    unsigned most_elements = 0;
    unsigned limit = 0;
  };
  [[nodiscard]] size current() const {
    const std::lock_guard lock(mutex_);
    return {
        .capacity = queue_.capacity(), .most_elements = queue_.most_elements(), .limit = limit_};
  }
  /// False if what is queued does not fit, or the limit is beyond the capacity: nothing is changed.
  [[nodiscard]] bool change(std::optional<unsigned> capacity, std::optional<unsigned> limit) {
    const std::lock_guard lock(mutex_);
    if (limit && *limit > capacity.value_or(queue_.capacity())) return false;
    if (capacity && !queue_.resize(*capacity)) return false;
    if (limit) limit_ = *limit;
    return true;
  }

 private:
  mutable ranked_mutex<lock_rank::shared_receive> mutex_;
  receive_queue queue_;
  unsigned limit_ = 0;
};

}  // namespace softverbs::transport
