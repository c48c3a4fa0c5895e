// How processes of one host notice each other's end, and say farewell for each other.
//
// A process with connections listens for its neighbours (sign_of_life.hpp). Processes of trusted
// users hold a connection to it, which the kernel closes with the process. Those of other users,
// and those that it has no room for, look four times a second whether it still listens: a
// connection that is accepted is theirs to close, or closed at once. Through the same connections a
// process leaves its wills with a neighbour (last_will.hpp).
//
// Bounds: connections that are accepted, from each process and in all; wills, likewise. Beyond them
// a newcomer is sent away. A process without a free descriptor sends away everybody, with one that
// it keeps in reserve.
//
// Owner: the agent, with whose lock held all functions are called; none of them waits.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include <cm/last_will.hpp>
#include <engine/clock.hpp>
#include <engine/private_descriptor.hpp>
#include <engine/reserve_descriptor.hpp>
#include <net/address.hpp>
#include <net/credentials.hpp>
#include <sys/types.h>

namespace softverbs::cm {

class identifier;

class neighbourhood {
 public:
  static constexpr std::size_t most_visitors = 4096;
  static constexpr std::size_t most_visits_of_one = 64;

  /// Descriptors that have to be looked at are added to the set.
  explicit neighbourhood(int epoll);

  /// Lets neighbours notice the end of this process.
  void show_life(const net::address& own, std::uint16_t port);

  /// Makes this process notice the end of the one whose messages come from that port; false if it
  /// has ended already.
  [[nodiscard]] bool watch(identifier& who, const net::address& address, std::uint16_t port);
  void unwatch(identifier& who);

  /// What the peer on another host of a connection is to be told at the end of this process.
  void bequeath(std::uint32_t number, const last_will& will);
  void revoke(std::uint32_t number) { testament_.remove(number); }

  /// What has become of a descriptor: whose neighbours have gone, and what is to be said for whom.
  struct news {
    bool known = false;  ///< the descriptor was one of these
    std::set<identifier*> bereaved;
    std::vector<last_will> wills;
  };
  [[nodiscard]] news handle(int fd);

  /// When look() has something to do, by the clock on the wall; its maximum if it has not.
  [[nodiscard]] engine::clock::wall::time_point next_look() const noexcept { return next_look_; }
  /// Looks whether those without a connection are still there: whose neighbours have gone.
  [[nodiscard]] std::set<identifier*> look();

 private:
  using place = std::pair<net::address, std::uint16_t>;
  struct neighbour {
    engine::private_descriptor connection{};  ///< none: it has to be looked for
    pid_t process = 0;
    std::set<identifier*> users;
  };

  struct visitor {
    engine::private_descriptor connection;
    pid_t process;
  };

  void greet(int listener);
  void make_room(int listener);
  [[nodiscard]] bool is_welcome(const net::credentials& who) const;
  /// False if it is gone.
  [[nodiscard]] static bool find(const place& where, neighbour& out);
  [[nodiscard]] static bool is_still_there(const place& where, const neighbour& known);
  void watch_descriptor(int fd) const;
  void look_soon();

  int epoll_;
  engine::reserve_descriptor reserve_;
  std::map<place, neighbour> neighbours_;
  std::map<place, engine::private_descriptor> shown_;  ///< listening
  std::map<int, visitor> visitors_;                    ///< by descriptor
  testament testament_;
  kept_wills kept_wills_;
  engine::clock::wall::time_point next_look_ = engine::clock::wall::time_point::max();
};

}  // namespace softverbs::cm
