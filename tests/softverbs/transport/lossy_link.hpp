// A link between two adapters that loses, repeats, delays and reorders packets, in virtual time.
// Everything follows from a seed.
#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <queue>
#include <random>
#include <tuple>
#include <utility>
#include <vector>

#include <base/clock.hpp>

namespace softverbs::transport {

class lossy_link {
 public:
  struct quality {
    double loss = 0;
    double duplication = 0;
    std::chrono::nanoseconds shortest = std::chrono::microseconds(10);
    std::chrono::nanoseconds longest = std::chrono::microseconds(10);  ///< longer: reordering
  };

  lossy_link(quality of, std::uint64_t seed) : quality_(of), random_(seed) {}

  [[nodiscard]] time_point now() const noexcept { return now_; }

  void send(std::size_t to, const std::vector<std::byte>& packet) {
    if (chance(quality_.loss)) return;
    const int copies = chance(quality_.duplication) ? 2 : 1;
    for (int i = 0; i < copies; ++i) {
      std::uniform_int_distribution<std::int64_t> delay(quality_.shortest.count(),
                                                        quality_.longest.count());
      under_way_.push({.when = now_ + std::chrono::nanoseconds(delay(random_)),
                       .order = sent_++,
                       .to = to,
                       .packet = packet});
    }
  }

  struct arrival {
    std::size_t to = 0;
    std::vector<std::byte> packet;
  };
  [[nodiscard]] time_point next_arrival() const {
    return under_way_.empty() ? never : under_way_.top().when;
  }
  [[nodiscard]] arrival take() {
    arrival next{.to = under_way_.top().to, .packet = under_way_.top().packet};
    under_way_.pop();
    return next;
  }
  void advance_to(time_point when) noexcept { now_ = std::max(now_, when); }

 private:
  struct flight {
    time_point when;
    std::uint64_t order = 0;
    std::size_t to = 0;
    std::vector<std::byte> packet;
    friend bool operator>(const flight& a, const flight& b) {
      return std::tie(a.when, a.order) > std::tie(b.when, b.order);
    }
  };

  bool chance(double probability) {
    return std::uniform_real_distribution<double>(0, 1)(random_) < probability;
  }

  quality quality_;
  std::mt19937_64 random_;
  time_point now_{std::chrono::hours(1)};
  std::uint64_t sent_ = 0;
  std::priority_queue<flight, std::vector<flight>, std::greater<>> under_way_;
};

}  // namespace softverbs::transport
