#include <cm/neighbourhood.hpp>

#include <algorithm>
#include <cerrno>
#include <chrono>

#include <base/log.hpp>
#include <cm/sign_of_life.hpp>
#include <sys/epoll.h>
#include <sys/socket.h>

namespace softverbs::cm {
namespace {

using namespace std::chrono_literals;
using wall = engine::clock::wall;

constexpr auto between_looks = 250ms;
// Of one listener, before others get their turn.
constexpr int visitors_per_turn = 16;

/// Whether the other end is really closed: what epoll told may have been about a descriptor of the
/// same number that was closed since. Nobody has anything to say here: what comes is thrown away.
bool is_closed(int fd) {
  char byte = 0;
  return ::recv(fd, &byte, 1, MSG_DONTWAIT) == 0 || (errno != EAGAIN && errno != EINTR);
}

}  // namespace

neighbourhood::neighbourhood(int epoll) : epoll_(epoll) { reserve_.provide(); }

void neighbourhood::watch_descriptor(int fd) const {
  epoll_event interest{.events = EPOLLIN, .data = {.fd = fd}};
  ::epoll_ctl(epoll_, EPOLL_CTL_ADD, fd, &interest);
}

// --- this process ----------------------------------------------------------------------------

void neighbourhood::show_life(const net::address& own, std::uint16_t port) {
  const place where(own, port);
  if (shown_.contains(where)) return;
  engine::private_descriptor listener(listen_for_life(own, port));
  if (!listener) {
    log(log_level::warning,
        "peers on this host may not notice the end of this process: its name for {} port {} is not "
        "to be had",
        own.text(), port);
    return;
  }
  watch_descriptor(listener.get());
  shown_[where] = std::move(listener);
}

void neighbourhood::greet(int listener) {
  for (int i = 0; i < visitors_per_turn; ++i) {
    engine::private_descriptor newcomer(
        ::accept4(listener, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (!newcomer) {
      if (errno == EMFILE || errno == ENFILE) make_room(listener);
      return;
    }
    const int fd = newcomer.get();
    const auto who = net::credentials_of_peer(fd);
    if (!who || !is_welcome(*who)) continue;
    visitors_[fd] = {.connection = std::move(newcomer), .process = who->process};
    kept_wills_.accept(fd, who->user);
    watch_descriptor(fd);
  }
}

void neighbourhood::make_room(int listener) {
  if (reserve_.refuse_one(listener)) return;
  // Whoever waits would make the set ready for ever. Neighbours still see that it listens.
  ::epoll_ctl(epoll_, EPOLL_CTL_DEL, listener, nullptr);
  look_soon();
}

bool neighbourhood::is_welcome(const net::credentials& who) const {
  if (!net::are_trusted(who) || visitors_.size() >= most_visitors) return false;
  const auto visits = std::ranges::count(visitors_, who.process,
                                         [](const auto& each) { return each.second.process; });
  return static_cast<std::size_t>(visits) < most_visits_of_one;
}

void neighbourhood::bequeath(std::uint32_t number, const last_will& will) {
  const int keeper = testament_.add(number, will);
  if (keeper >= 0) watch_descriptor(keeper);
}

// --- others ----------------------------------------------------------------------------------

bool neighbourhood::find(const place& where, neighbour& out) {
  auto fd = connect_to_life(where.first, where.second);
  // It listened before it said anything: who does not listen any more is gone.
  if (!fd) return errno != ECONNREFUSED;
  const auto who = net::credentials_of_peer(fd.get());
  const auto process = who ? who->process : 0;
  const bool is_other = out.process != 0 && process != 0 && process != out.process;
  if (is_other) return false;  // a successor of its name
  out.process = process;
  if (who && net::are_trusted(*who) && !out.connection)
    out.connection = engine::private_descriptor(std::move(fd));
  return true;
}

void neighbourhood::look_soon() {
  next_look_ = std::min(next_look_, wall::time_point(wall::now() + between_looks));
}

bool neighbourhood::watch(identifier& who, const net::address& address, std::uint16_t port) {
  const place where(address, port);
  auto& found = neighbours_[where];
  if (found.users.empty() && !find(where, found)) {
    neighbours_.erase(where);
    return false;
  }
  if (found.users.empty() && found.connection) watch_descriptor(found.connection.get());
  if (!found.connection) look_soon();
  found.users.insert(&who);
  return true;
}

void neighbourhood::unwatch(identifier& who) {
  for (auto each = neighbours_.begin(); each != neighbours_.end();) {
    auto& known = each->second;
    if (known.users.erase(&who) > 0 && known.users.empty()) {
      each = neighbours_.erase(each);
    } else {
      ++each;
    }
  }
}

bool neighbourhood::is_still_there(const place& where, const neighbour& known) {
  neighbour again{.process = known.process, .users = {}};
  return find(where, again);
}

std::set<identifier*> neighbourhood::look() {
  std::set<identifier*> bereaved;
  if (wall::now() < next_look_) return bereaved;
  next_look_ = wall::time_point::max();
  // Those that were taken out of the set in make_room().
  for (const auto& [where, listener] : shown_) watch_descriptor(listener.get());
  for (auto each = neighbours_.begin(); each != neighbours_.end();) {
    auto& [where, known] = *each;
    if (known.connection) {
      ++each;
    } else if (is_still_there(where, known)) {
      look_soon();
      ++each;
    } else {
      bereaved.merge(known.users);
      each = neighbours_.erase(each);
    }
  }
  return bereaved;
}

neighbourhood::news neighbourhood::handle(int fd) {
  news told{.known = true, .bereaved = {}, .wills = {}};
  if (std::ranges::any_of(shown_, [fd](const auto& each) { return each.second.get() == fd; })) {
    greet(fd);
    return told;
  }
  if (kept_wills_.knows(fd)) {
    if (kept_wills_.receive(fd)) return told;
    told.wills = kept_wills_.open(fd);
    visitors_.erase(fd);
    return told;
  }
  if (testament_.is_kept_by(fd)) {
    if (!is_closed(fd)) return told;
    if (const int other = testament_.keeper_has_gone(); other >= 0) watch_descriptor(other);
    return told;
  }
  const auto found = std::ranges::find_if(
      neighbours_, [fd](const auto& each) { return each.second.connection.get() == fd; });
  told.known = found != neighbours_.end();
  if (!told.known || !is_closed(fd)) return told;
  auto& known = found->second;
  known.connection.reset();
  // It is gone, or has no room for this process.
  if (is_still_there(found->first, known)) {
    look_soon();
    return told;
  }
  told.bereaved = std::move(known.users);
  neighbours_.erase(found);
  return told;
}

}  // namespace softverbs::cm
