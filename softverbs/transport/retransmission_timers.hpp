// When an answer is late. Round trips are measured as packets are answered, and two deadlines
// follow from them: a probe, which asks the peer what it has, and the timeout of the queue pair,
// which counts as a retry.
//
// When the end of a burst is lost, no later packet makes the peer complain, and the timeout of the
// queue pair may be long. So the peer is probed when an answer should have come, then after twice
// the time, and so on.
//
// Owner: a requester. Not synchronised, without a clock of its own.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>

#include <base/clock.hpp>
#include <transport/packet_timer.hpp>
#include <transport/round_trip.hpp>

namespace softverbs::transport {

class retransmission_timers {
 public:
  // --- samples ---

  /// A packet is sent for the first time (Karn's rule). Some of those in a window of so many
  /// packets are timed; for them `now()` is asked.
  template <class Now>
  void sent(std::uint64_t psn, std::size_t window_packets, Now now) noexcept {
    if (!timer_.has_room(psn, window_packets / packet_timer::most)) return;
    if (round_trip_.is_known() && round_trip_.smoothed() < short_round_trip &&
        ++not_timed_ < packets_per_sample)
      return;
    not_timed_ = 0;
    timer_.sent(psn, now());
  }
  /// Everything before `psn` has been answered; `now()` is asked if a packet among it was timed.
  template <class Now>
  void answered_before(std::uint64_t psn, Now now) noexcept {
    const auto sent = timer_.answered_before(psn);
    if (!sent) {
      round_trip_.answered();
      return;
    }
    const auto then = now();
    // Averages are made of one sample for each round trip (RFC 7323, appendix G).
    if (*sent >= smoothed_at_) {
      round_trip_.sample(then - *sent);
      smoothed_at_ = then;
    } else {
      round_trip_.answered(then - *sent);
    }
  }
  /// What begins there is sent again, and tells nothing.
  void forget_samples_from(std::uint64_t psn) noexcept { timer_.forget_from(psn); }
  [[nodiscard]] const round_trip& path() const noexcept { return round_trip_; }

  // --- deadlines ---

  /// An answer is awaited from now on. `timeout` is the queue pair's exponent; 0: never.
  void start(time_point now, std::uint8_t timeout) noexcept {
    last_active_ = now;
    probe_at_ = now + round_trip_.timeout();
    if (timeout == 0) return;
    // 9.7.6.1.3: 4.096 µs · 2^timeout is the shortest time; the timer may take up to four times it,
    // which a path that is longer than its user thought may need.
    const clock::duration shortest = std::chrono::nanoseconds(std::int64_t{4096} << timeout);
    retry_at_ = now + std::clamp<clock::duration>(round_trip_.timeout_without_backoff(), shortest,
                                                  4 * shortest);
  }
  /// A service without acknowledgements waits for flow control, and then does without it.
  void wait_until(time_point when) noexcept { retry_at_ = when; }
  void stop() noexcept { retry_at_ = probe_at_ = never; }
  [[nodiscard]] bool is_probing() const noexcept { return probe_at_ != never; }
  [[nodiscard]] bool is_waiting() const noexcept { return retry_at_ != never; }
  [[nodiscard]] bool retry_is_due(time_point now) const noexcept { return now >= retry_at_; }
  [[nodiscard]] bool probe_is_due(time_point now) const noexcept { return now >= probe_at_; }
  [[nodiscard]] time_point next() const noexcept { return std::min(retry_at_, probe_at_); }

  /// A packet goes out to see whether the peer is there; the next one has to wait longer.
  void probing(time_point now) noexcept {
    round_trip_.back_off();
    if (is_probing()) probe_at_ = now + round_trip_.timeout();
  }
  /// Nothing was sent for longer than a round trip: the path may be another one now.
  [[nodiscard]] bool has_paused(time_point now) const noexcept {
    return now - last_active_ > round_trip_.timeout_without_backoff();
  }
  void path_was_empty() noexcept { round_trip_.forget_shortest(); }

 private:
  // Where round trips are shorter than this, the timeout depends on the granularity alone: one
  // packet in so many is timed.
  static constexpr auto short_round_trip = std::chrono::milliseconds(1);
  static constexpr unsigned packets_per_sample = 16;

  round_trip round_trip_;
  packet_timer timer_;
  time_point smoothed_at_{};  ///< when the latest sample was taken
  unsigned not_timed_ = 0;    ///< packets since the last sample

  time_point retry_at_ = never;
  time_point probe_at_ = never;
  time_point last_active_{};  ///< when timers were started last
};

}  // namespace softverbs::transport
