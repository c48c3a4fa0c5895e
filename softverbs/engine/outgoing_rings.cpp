#include <engine/outgoing_rings.hpp>

#include <algorithm>
#include <array>
#include <cerrno>
#include <iterator>
#include <span>

#include <base/log.hpp>
#include <engine/host_protocol.hpp>
#include <sys/epoll.h>

namespace softverbs::engine {
namespace {

using steady = std::chrono::steady_clock;

// How long somebody who wants no ring is not offered another one.
constexpr auto respite = std::chrono::seconds(1);

}  // namespace

outgoing_rings::outgoing_rings(const limits& bounds)
    : limits_(bounds), connections_(::epoll_create1(EPOLL_CLOEXEC)) {}

std::shared_ptr<ring_writer> outgoing_rings::find_or_offer(const ends& between) {
  const std::lock_guard lock(mutex_);
  if (const auto found = known_.find(between); found != known_.end()) {
    const auto which = found->second;
    recent_.splice(recent_.begin(), recent_, which);
    if (which->ring != nullptr) {
      // The successor of a process that has died may hold its port already.
      which->ring->look_at_connection();
      if (!which->ring->is_closed()) return which->ring;
    } else if (steady::now() < which->refused_until) {
      return nullptr;
    }
    forget(which);
  }
  if (!make_place()) return nullptr;
  auto ring = ring_writer::offer(host_protocol::ring_listener_name(between.to, between.to_port),
                                 {.source_port = between.port, .source = between.own});
  if (ring == nullptr && errno != EACCES) return nullptr;
  if (ring == nullptr) {
    log(log_level::debug, "{} port {} belongs to another user: packets go there through sockets",
        between.to.text(), between.to_port);
  } else {
    ++offered_;
    watch(*ring);
  }
  recent_.push_front({.between = between, .ring = ring, .refused_until = steady::now() + respite});
  known_.emplace(between, recent_.begin());
  return ring;
}

void outgoing_rings::watch(const ring_writer& ring) const {
  // Nobody sends anything back through a ring's connection: only its end is told, once.
  epoll_event interest{.events = EPOLLRDHUP | EPOLLONESHOT,
                       .data = {.ptr = const_cast<ring_writer*>(&ring)}};
  ::epoll_ctl(connections_.get(), EPOLL_CTL_ADD, ring.connection(), &interest);
}

bool outgoing_rings::receive(receive_state& /*state*/, std::uint32_t /*events*/) {
  std::array<epoll_event, 16> ended{};
  const int count = ::epoll_wait(connections_.get(), ended.data(), ended.size(), 0);
  for (const auto& each : std::span(ended).first(static_cast<std::size_t>(std::max(count, 0))))
    on_end(each.data.ptr);
  return false;
}

void outgoing_rings::on_end(const void* ring) {
  const std::lock_guard lock(mutex_);
  for (auto& each : recent_) {
    if (each.ring.get() != ring) continue;
    each.ring->look_at_connection();
    if (!each.ring->is_closed()) return;
    log(log_level::debug, "the ring to {} port {} has ended", each.between.to.text(),
        each.between.to_port);
    // Routes that still hold it see that it is closed.
    each.ring = nullptr;
    each.refused_until = steady::now() + respite;
    return;
  }
}

void outgoing_rings::release_memory() {
  const std::lock_guard lock(mutex_);
  for (const auto& each : recent_) {
    if (each.ring != nullptr) each.ring->release_memory();
  }
}

std::uint64_t outgoing_rings::offered() const {
  const std::lock_guard lock(mutex_);
  return offered_;
}

bool outgoing_rings::make_place() {
  const auto idle = static_cast<std::size_t>(std::ranges::count_if(recent_, &entry::is_idle));
  if (recent_.size() < limits_.in_all && idle < limits_.idle) return true;
  // The one that was wanted least recently; what has been written to it shall be read before
  // anything that goes another way.
  for (auto each = recent_.rbegin(); each != recent_.rend(); ++each) {
    if (!each->is_idle() || (each->ring != nullptr && !each->ring->is_empty())) continue;
    forget(std::prev(each.base()));
    return true;
  }
  return recent_.size() < limits_.in_all;
}

void outgoing_rings::forget(entries::iterator which) {
  known_.erase(which->between);
  recent_.erase(which);
}

}  // namespace softverbs::engine
