// When packets were sent whose answers tell the length of a round trip. A few of each round trip,
// so that a queue on the way is seen while the window grows, and not a round trip later.
//
// Karn's rule is kept by whoever calls sent(): nothing that was sent before.
//
// Owner: a requester. Not synchronised, without a clock.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>

#include <base/clock.hpp>

namespace softverbs::transport {

class packet_timer {
 public:
  static constexpr std::size_t most = 8;

  /// Whether one more packet can be timed, which is so much younger than the last that was.
  [[nodiscard]] bool has_room(std::uint64_t psn, std::uint64_t distance) const noexcept {
    return count_ == 0 || (count_ < most && psn - newest().psn >= distance);
  }
  /// Packets come in the order of their PSNs, and only where there is room.
  void sent(std::uint64_t psn, time_point when) noexcept {
    entries_[(first_ + count_) % most] = {.psn = psn, .when = when};
    ++count_;
  }

  /// Everything before `psn` has been answered: when the youngest that was timed was sent.
  [[nodiscard]] std::optional<time_point> answered_before(std::uint64_t psn) noexcept {
    std::optional<time_point> youngest;
    while (count_ != 0 && entries_[first_].psn < psn) {
      youngest = entries_[first_].when;
      first_ = (first_ + 1) % most;
      --count_;
    }
    return youngest;
  }

  /// What begins there is sent again, and tells nothing.
  void forget_from(std::uint64_t psn) noexcept {
    while (count_ != 0 && newest().psn >= psn) --count_;
  }

 private:
  struct entry {
    std::uint64_t psn = 0;
    time_point when{};
  };

  [[nodiscard]] const entry& newest() const noexcept {
    return entries_[(first_ + count_ - 1) % most];
  }

  std::array<entry, most> entries_{};
  std::size_t first_ = 0;
  std::size_t count_ = 0;
};

}  // namespace softverbs::transport
