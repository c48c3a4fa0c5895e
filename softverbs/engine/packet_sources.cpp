#include <engine/packet_sources.hpp>

#include <algorithm>
#include <array>
#include <cerrno>
#include <span>

namespace softverbs::engine {

packet_sources::packet_sources(timer_queue& timers)
    : timers_(timers), epoll_(::epoll_create1(EPOLL_CLOEXEC)) {}

void packet_sources::add(int fd, packet_source& source, std::uint32_t events) {
  epoll_event interest{.events = events, .data = {.ptr = &source}};
  if (::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd, &interest) != 0 && errno == EEXIST)
    ::epoll_ctl(epoll_.get(), EPOLL_CTL_MOD, fd, &interest);
}

void packet_sources::remove(int fd) { ::epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, fd, nullptr); }

void packet_sources::pause(int fd, packet_source& source, std::chrono::nanoseconds duration,
                           std::uint32_t events) {
  remove(fd);
  timers_.at(clock::now() + duration, [this, fd, &source, events] { add(fd, source, events); });
}

bool packet_sources::receive_ready(receive_state& state) const {
  std::array<epoll_event, 16> ready{};
  const int count = ::epoll_wait(epoll_.get(), ready.data(), ready.size(), 0);
  bool any = false;
  for (const auto& each : std::span(ready).first(static_cast<std::size_t>(std::max(count, 0)))) {
    any |= static_cast<packet_source*>(each.data.ptr)->receive(state, each.events);
  }
  return any;
}

}  // namespace softverbs::engine
