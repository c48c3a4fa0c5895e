#include <cm/liveness_monitor.hpp>

#include <algorithm>
#include <cerrno>
#include <chrono>

#include <base/log.hpp>
#include <cm/liveness.hpp>
#include <sys/epoll.h>
#include <sys/socket.h>

namespace softverbs::cm {
namespace {

using namespace std::chrono_literals;
using wall = engine::clock::wall;

constexpr auto between_probes = 250ms;
// Of one listener, before others get their turn.
constexpr int watchers_per_turn = 16;

/// Whether the other end is really closed: epoll may have reported a descriptor of the same number
/// that was closed since. Nothing is ever sent here: what arrives is thrown away.
bool is_closed(int fd) {
  char byte = 0;
  return ::recv(fd, &byte, 1, MSG_DONTWAIT) == 0 || (errno != EAGAIN && errno != EINTR);
}

}  // namespace

liveness_monitor::liveness_monitor(int epoll) : epoll_(epoll) { reserve_.provide(); }

void liveness_monitor::add_to_epoll(int fd) const {
  epoll_event interest{.events = EPOLLIN, .data = {.fd = fd}};
  ::epoll_ctl(epoll_, EPOLL_CTL_ADD, fd, &interest);
}

// --- this process ----------------------------------------------------------------------------

void liveness_monitor::announce(const net::address& own, std::uint16_t port) {
  const place where(own, port);
  if (announced_.contains(where)) return;
  engine::private_descriptor listener(listen_for_watchers(own, port));
  if (!listener) {
    log(log_level::warning,
        "peers on this host may not notice the end of this process: its socket name for {} port {} "
        "is taken",
        own.text(), port);
    return;
  }
  add_to_epoll(listener.get());
  announced_[where] = std::move(listener);
}

void liveness_monitor::accept_watchers(int listener) {
  for (int i = 0; i < watchers_per_turn; ++i) {
    engine::private_descriptor newcomer(
        ::accept4(listener, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (!newcomer) {
      if (errno == EMFILE || errno == ENFILE) refuse_watcher(listener);
      return;
    }
    const int fd = newcomer.get();
    const auto who = net::credentials_of_peer(fd);
    if (!who || !may_watch(*who)) continue;
    watchers_[fd] = {.connection = std::move(newcomer), .process = who->process};
    held_.accept(fd, who->user);
    add_to_epoll(fd);
  }
}

void liveness_monitor::refuse_watcher(int listener) {
  if (reserve_.refuse_one(listener)) return;
  // Waiting connections would make the set ready for ever. Neighbours still see that it listens.
  ::epoll_ctl(epoll_, EPOLL_CTL_DEL, listener, nullptr);
  probe_soon();
}

bool liveness_monitor::may_watch(const net::credentials& who) const {
  if (!net::are_trusted(who) || watchers_.size() >= most_watchers) return false;
  const auto connections = std::ranges::count(watchers_, who.process,
                                              [](const auto& each) { return each.second.process; });
  return static_cast<std::size_t>(connections) < most_connections_of_one;
}

void liveness_monitor::register_orphan_disconnect(std::uint32_t comm_id,
                                                  const orphan_disconnect& disconnect) {
  const int holder = registered_.add(comm_id, disconnect);
  if (holder >= 0) add_to_epoll(holder);
}

// --- others ----------------------------------------------------------------------------------

bool liveness_monitor::find(const place& where, neighbour& out) {
  auto fd = connect_to_watch(where.first, where.second);
  // It listened before it sent its first message: if it does not listen any more, it has gone.
  if (!fd) return errno != ECONNREFUSED;
  const auto who = net::credentials_of_peer(fd.get());
  const auto process = who ? who->process : 0;
  const bool is_other = out.process != 0 && process != 0 && process != out.process;
  if (is_other) return false;  // a successor under the same name
  out.process = process;
  if (who && net::are_trusted(*who) && !out.connection)
    out.connection = engine::private_descriptor(std::move(fd));
  return true;
}

void liveness_monitor::probe_soon() {
  next_probe_ = std::min(next_probe_, wall::time_point(wall::now() + between_probes));
}

bool liveness_monitor::watch(cm_id& who, const net::address& address, std::uint16_t port) {
  const place where(address, port);
  auto& found = neighbours_[where];
  if (found.users.empty() && !find(where, found)) {
    neighbours_.erase(where);
    return false;
  }
  if (found.users.empty() && found.connection) add_to_epoll(found.connection.get());
  if (!found.connection) probe_soon();
  found.users.insert(&who);
  return true;
}

void liveness_monitor::unwatch(cm_id& who) {
  for (auto each = neighbours_.begin(); each != neighbours_.end();) {
    auto& known = each->second;
    if (known.users.erase(&who) > 0 && known.users.empty()) {
      each = neighbours_.erase(each);
    } else {
      ++each;
    }
  }
}

bool liveness_monitor::is_still_there(const place& where, const neighbour& known) {
  neighbour again{.process = known.process, .users = {}};
  return find(where, again);
}

std::set<cm_id*> liveness_monitor::probe() {
  std::set<cm_id*> peers_gone;
  if (wall::now() < next_probe_) return peers_gone;
  next_probe_ = wall::time_point::max();
  // Those that refuse_watcher() has taken out of the set.
  for (const auto& [where, listener] : announced_) add_to_epoll(listener.get());
  for (auto each = neighbours_.begin(); each != neighbours_.end();) {
    auto& [where, known] = *each;
    if (known.connection) {
      ++each;
    } else if (is_still_there(where, known)) {
      probe_soon();
      ++each;
    } else {
      peers_gone.merge(known.users);
      each = neighbours_.erase(each);
    }
  }
  return peers_gone;
}

liveness_monitor::report liveness_monitor::handle(int fd) {
  report found_out{.known = true, .peers_gone = {}, .orphan_disconnects = {}};
  if (std::ranges::any_of(announced_, [fd](const auto& each) { return each.second.get() == fd; })) {
    accept_watchers(fd);
    return found_out;
  }
  if (held_.knows(fd)) {
    if (held_.receive(fd)) return found_out;
    found_out.orphan_disconnects = held_.release(fd);
    watchers_.erase(fd);
    return found_out;
  }
  if (registered_.are_held_by(fd)) {
    if (!is_closed(fd)) return found_out;
    if (const int other = registered_.holder_has_gone(); other >= 0) add_to_epoll(other);
    return found_out;
  }
  const auto found = std::ranges::find_if(
      neighbours_, [fd](const auto& each) { return each.second.connection.get() == fd; });
  found_out.known = found != neighbours_.end();
  if (!found_out.known || !is_closed(fd)) return found_out;
  auto& known = found->second;
  known.connection.reset();
  // It has gone, or has no room for this process.
  if (is_still_there(found->first, known)) {
    probe_soon();
    return found_out;
  }
  found_out.peers_gone = std::move(known.users);
  neighbours_.erase(found);
  return found_out;
}

}  // namespace softverbs::cm
