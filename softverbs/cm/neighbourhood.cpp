#include <cm/neighbourhood.hpp>

#include <algorithm>
#include <cerrno>
#include <chrono>

#include <base/descriptor.hpp>
#include <base/log.hpp>
#include <cm/sign_of_life.hpp>
#include <engine/station.hpp>
#include <net/credentials.hpp>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

namespace softverbs::cm {
namespace {

using namespace std::chrono_literals;
using wall = engine::clock::wall;

constexpr auto between_looks = 250ms;
// Of one listener, before others get their turn.
constexpr int visitors_per_turn = 16;

void close_known(int fd) {
  engine::forget_descriptor(fd);
  ::close(fd);
}

/// Whether the other end is really closed: what epoll told may have been about a descriptor of the
/// same number that was closed since. Nobody has anything to say here: what comes is thrown away.
bool is_closed(int fd) {
  char byte = 0;
  return ::recv(fd, &byte, 1, MSG_DONTWAIT) == 0 || (errno != EAGAIN && errno != EINTR);
}

}  // namespace

neighbourhood::neighbourhood(int epoll) : epoll_(epoll) { reserve_.provide(); }

neighbourhood::~neighbourhood() {
  for (const auto& [where, each] : neighbours_) {
    if (each.fd >= 0) close_known(each.fd);
  }
  for (const auto& [where, fd] : shown_) close_known(fd);
  for (const auto& [fd, process] : visitors_) close_known(fd);
}

void neighbourhood::watch_descriptor(int fd) const {
  engine::close_in_children(fd);
  epoll_event interest{.events = EPOLLIN, .data = {.fd = fd}};
  ::epoll_ctl(epoll_, EPOLL_CTL_ADD, fd, &interest);
}

// --- this process ----------------------------------------------------------------------------

void neighbourhood::show_life(const net::address& own, std::uint16_t port) {
  const place where(own, port);
  if (shown_.contains(where)) return;
  const int fd = listen_for_life(own, port).release();
  if (fd < 0) {
    log(log_level::warning,
        "peers on this host may not notice the end of this process: its name for {} port {} is not "
        "to be had",
        own.text(), port);
    return;
  }
  shown_[where] = fd;
  watch_descriptor(fd);
}

void neighbourhood::greet(int listener) {
  for (int i = 0; i < visitors_per_turn; ++i) {
    descriptor newcomer(::accept4(listener, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (!newcomer) {
      if (errno == EMFILE || errno == ENFILE) make_room(listener);
      return;
    }
    if (is_welcome(newcomer.get())) watch_descriptor(newcomer.release());
  }
}

void neighbourhood::make_room(int listener) {
  if (reserve_.refuse_one(listener)) return;
  // Whoever waits would make the set ready for ever. Neighbours still see that it listens.
  ::epoll_ctl(epoll_, EPOLL_CTL_DEL, listener, nullptr);
  look_soon();
}

bool neighbourhood::is_welcome(int fd) {
  const auto who = net::credentials_of_peer(fd);
  if (!who || !net::are_trusted(*who) || visitors_.size() >= most_visitors) return false;
  const auto visits =
      std::ranges::count(visitors_, who->process, [](const auto& each) { return each.second; });
  if (static_cast<std::size_t>(visits) >= most_visits_of_one) return false;
  visitors_[fd] = who->process;
  kept_wills_.accept(fd, who->user);
  return true;
}

void neighbourhood::close_visitor(int fd) {
  visitors_.erase(fd);
  close_known(fd);
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
  if (who && net::are_trusted(*who) && out.fd < 0) out.fd = fd.release();
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
  if (found.users.empty() && found.fd >= 0) watch_descriptor(found.fd);
  if (found.fd < 0) look_soon();
  found.users.insert(&who);
  return true;
}

void neighbourhood::unwatch(identifier& who) {
  for (auto each = neighbours_.begin(); each != neighbours_.end();) {
    auto& known = each->second;
    if (known.users.erase(&who) > 0 && known.users.empty()) {
      if (known.fd >= 0) close_known(known.fd);
      each = neighbours_.erase(each);
    } else {
      ++each;
    }
  }
}

bool neighbourhood::is_still_there(const place& where, const neighbour& known) {
  neighbour again{.fd = -1, .process = known.process, .users = {}};
  const bool found = find(where, again);
  if (again.fd >= 0) ::close(again.fd);
  return found;
}

std::set<identifier*> neighbourhood::look() {
  std::set<identifier*> bereaved;
  if (wall::now() < next_look_) return bereaved;
  next_look_ = wall::time_point::max();
  // Those that were taken out of the set in make_room().
  for (const auto& [where, fd] : shown_) {
    epoll_event interest{.events = EPOLLIN, .data = {.fd = fd}};
    ::epoll_ctl(epoll_, EPOLL_CTL_ADD, fd, &interest);
  }
  for (auto each = neighbours_.begin(); each != neighbours_.end();) {
    auto& [where, known] = *each;
    if (known.fd >= 0) {
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
  if (std::ranges::any_of(shown_, [fd](const auto& each) { return each.second == fd; })) {
    greet(fd);
    return told;
  }
  if (kept_wills_.knows(fd)) {
    if (kept_wills_.receive(fd)) return told;
    told.wills = kept_wills_.open(fd);
    close_visitor(fd);
    return told;
  }
  if (testament_.is_kept_by(fd)) {
    if (!is_closed(fd)) return told;
    engine::forget_descriptor(fd);
    if (const int other = testament_.keeper_has_gone(); other >= 0) watch_descriptor(other);
    return told;
  }
  const auto found =
      std::ranges::find_if(neighbours_, [fd](const auto& each) { return each.second.fd == fd; });
  told.known = found != neighbours_.end();
  if (!told.known || !is_closed(fd)) return told;
  auto& known = found->second;
  close_known(fd);
  known.fd = -1;
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
