// How the programs for `./bench soft` and `./bench stream` measure and report: one line of JSON.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <numeric>
#include <vector>

namespace benchmark_timing {

using clock = std::chrono::steady_clock;

[[noreturn]] inline void fail(const char* what) {
  std::perror(what);
  std::exit(1);
}

inline void need(bool done, const char* what) {
  if (!done) fail(what);
}

/// Microseconds of each round trip; half of one is the latency. The first tenth only warms up.
class round_trips {
 public:
  explicit round_trips(int count) { microseconds_.reserve(static_cast<std::size_t>(count)); }

  template <class RoundTrip>
  void time(const RoundTrip& once) {
    const auto start = clock::now();
    once();
    const std::chrono::duration<double, std::micro> taken = clock::now() - start;
    microseconds_.push_back(taken.count());
  }

  void print() {
    microseconds_.erase(microseconds_.begin(),
                        microseconds_.begin() + static_cast<long>(microseconds_.size() / 10));
    std::ranges::sort(microseconds_);
    const auto count = static_cast<double>(microseconds_.size());
    const double mean = std::accumulate(microseconds_.begin(), microseconds_.end(), 0.0) / count;
    std::printf("{\"median\": %.4f, \"mean\": %.4f}\n", microseconds_[microseconds_.size() / 2] / 2,
                mean / 2);
  }

 private:
  std::vector<double> microseconds_;
};

/// In units of 10^9 bytes per second.
inline void print_bandwidth(double bytes, clock::duration taken) {
  const std::chrono::duration<double, std::nano> nanoseconds = taken;
  std::printf("{\"bandwidth\": %.4f}\n", bytes / nanoseconds.count());
}

}  // namespace benchmark_timing
