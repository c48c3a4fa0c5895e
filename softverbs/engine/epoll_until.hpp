// How the threads of the library sleep: until a descriptor is ready or a moment of the steady clock
// has come. Any thread.
#pragma once

#include <algorithm>
#include <chrono>
#include <ctime>
#include <span>

#include <engine/clock.hpp>
#include <sys/epoll.h>

namespace softverbs::engine {

/// How many are ready, at once if there are any; the clock's maximum never comes.
inline int epoll_until(int epoll, std::span<epoll_event> ready, clock::wall::time_point until) {
  const auto most = static_cast<int>(ready.size());
  if (until == clock::wall::time_point::max())
    return ::epoll_pwait2(epoll, ready.data(), most, nullptr, nullptr);
  const std::chrono::nanoseconds left =
      std::max(clock::wall::duration::zero(), until - clock::wall::now());
  const auto seconds = std::chrono::floor<std::chrono::seconds>(left);
  const timespec timeout{.tv_sec = seconds.count(), .tv_nsec = (left - seconds).count()};
  return ::epoll_pwait2(epoll, ready.data(), most, &timeout, nullptr);
}

}  // namespace softverbs::engine
