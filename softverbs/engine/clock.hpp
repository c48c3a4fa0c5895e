// The time that timers run on.
#pragma once

#include <chrono>

namespace softverbs::engine {

using clock = std::chrono::steady_clock;
using time_point = clock::time_point;

inline constexpr time_point never = time_point::max();

}  // namespace softverbs::engine
