// How long an answer takes, and how long to wait for one: the arithmetic of RFC 6298, without a
// clock of its own. Samples go in, a timeout comes out.
//
// Karn's rule is the caller's to keep: an answer to something that was sent twice is no sample. It
// is also why a doubled timeout outlives the answer that ends the wait.
//
// Owner: a requester. Not synchronised.
#pragma once

#include <algorithm>
#include <chrono>

namespace softverbs::transport {

class round_trip {
 public:
  using duration = std::chrono::nanoseconds;

  /// RFC 6298 says a second. What is lost before the first sample shall not wait so long; paths
  /// with a longer round trip see one packet twice.
  static constexpr duration first_timeout = std::chrono::milliseconds(250);
  /// The granularity G: what a busy host adds to a round trip now and then (a thread that has to
  /// wait for its processor) without any packet being lost.
  static constexpr duration granularity = std::chrono::milliseconds(10);
  static constexpr duration longest_timeout = std::chrono::seconds(60);
  /// Doubling ends here: one packet in a second burdens nobody, and the peer may come back.
  static constexpr duration longest_doubled = std::chrono::seconds(1);

  void sample(duration measured) noexcept {
    latest_ = measured;
    if (!known_) {
      known_ = true;
      smoothed_ = shortest_ = measured;
      variation_ = measured / 2;
    } else {
      const auto difference = smoothed_ > measured ? smoothed_ - measured : measured - smoothed_;
      variation_ += (difference - variation_) / 4;
      smoothed_ += (measured - smoothed_) / 8;
      shortest_ = std::min(shortest_, measured);
    }
    doublings_ = 0;
    first_answer_is_due_ = false;
  }

  /// Nothing came in time: the next wait is twice as long (5.5).
  void back_off() noexcept {
    ++doublings_;
    first_answer_is_due_ = true;
  }
  /// An answer that is no sample. The first one after a timeout may be to what was sent before it,
  /// over a path that is longer than was thought; the next one shows that the path is alive.
  void answered() noexcept {
    if (!first_answer_is_due_) doublings_ = 0;
    first_answer_is_due_ = false;
  }

  /// One more answer in a round trip that has its sample: it only tells about a queue.
  void answered(duration measured) noexcept {
    latest_ = measured;
    shortest_ = std::min(shortest_, measured);
    answered();
  }

  [[nodiscard]] duration timeout() const noexcept {
    const auto once = timeout_without_backoff();
    auto wait = once;
    for (unsigned i = 0; i < doublings_ && wait < longest_doubled; ++i) wait *= 2;
    return std::max(once, std::min(wait, longest_doubled));
  }
  [[nodiscard]] duration timeout_without_backoff() const noexcept {
    if (!known_) return first_timeout;
    return std::min(smoothed_ + std::max(granularity, 4 * variation_), longest_timeout);
  }

  [[nodiscard]] bool is_known() const noexcept { return known_; }
  [[nodiscard]] duration smoothed() const noexcept { return smoothed_; }
  /// Whether packets wait on the way: the latest one took clearly longer than the fastest, which
  /// is twice as long on a short path. On a long one that would be a queue of many megabytes, and
  /// little more than what a busy host adds is enough.
  [[nodiscard]] bool queue_builds_up() const noexcept {
    return latest_ - shortest_ > std::min(shortest_, std::max(granularity, shortest_ / 8));
  }
  /// The path was empty for a while: what was the shortest time may have been on another one.
  void forget_shortest() noexcept { shortest_ = longest_timeout; }

 private:
  bool known_ = false;
  duration smoothed_{};   ///< SRTT
  duration variation_{};  ///< RTTVAR
  duration shortest_{};
  duration latest_{};
  unsigned doublings_ = 0;
  bool first_answer_is_due_ = false;
};

}  // namespace softverbs::transport
