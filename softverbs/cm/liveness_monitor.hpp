// How processes of one host notice each other's end, and disconnect for each other.
//
// A process with connections listens for processes that want to watch it (liveness.hpp). Processes
// of trusted users hold a connection to it, which the kernel closes with the process. Those of
// other users, and those that it has no room for, probe four times a second whether it still
// listens: a connection that succeeds is closed at once, by them or by it. Through the same
// connections a process registers its orphan disconnects with a neighbour (orphan_disconnect.hpp).
//
// Bounds: accepted connections, from each process and in all; orphan disconnects, likewise. Beyond
// them a newcomer is refused. A process without a free descriptor refuses every newcomer, with one
// descriptor that it keeps in reserve.
//
// Owner: the agent. All functions are called with its lock held; none of them waits.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include <cm/orphan_disconnect.hpp>
#include <engine/clock.hpp>
#include <engine/private_descriptor.hpp>
#include <engine/reserve_descriptor.hpp>
#include <net/address.hpp>
#include <net/credentials.hpp>
#include <sys/types.h>

namespace softverbs::cm {

class cm_id;

class liveness_monitor {
 public:
  static constexpr std::size_t most_watchers = 4096;
  static constexpr std::size_t most_connections_of_one = 64;

  /// Descriptors that handle() has to be called for are added to the epoll set.
  explicit liveness_monitor(int epoll);

  /// Lets neighbours notice the end of this process.
  void announce(const net::address& own, std::uint16_t port);

  /// Makes this process notice the end of the one whose messages come from that port; false if it
  /// has ended already.
  [[nodiscard]] bool watch(cm_id& who, const net::address& address, std::uint16_t port);
  void unwatch(cm_id& who);

  /// What a neighbour sends to the peer on another host when this process ends.
  void register_orphan_disconnect(std::uint32_t comm_id, const orphan_disconnect& disconnect);
  void withdraw_orphan_disconnect(std::uint32_t comm_id) { registered_.remove(comm_id); }

  /// What a readable descriptor tells.
  struct report {
    bool known = false;  ///< the descriptor belongs to this monitor
    std::set<cm_id*> peers_gone;
    std::vector<orphan_disconnect> orphan_disconnects;  ///< that have to be sent now
  };
  [[nodiscard]] report handle(int fd);

  /// When probe() has something to do, in wall-clock time; its maximum if it has not.
  [[nodiscard]] engine::clock::wall::time_point next_probe() const noexcept { return next_probe_; }
  /// Probes the processes that are watched without a connection. Returns whose peers have gone.
  [[nodiscard]] std::set<cm_id*> probe();

 private:
  using place = std::pair<net::address, std::uint16_t>;
  struct neighbour {
    engine::private_descriptor connection{};  ///< none: it has to be probed
    pid_t process = 0;
    std::set<cm_id*> users;
  };

  struct watcher {
    engine::private_descriptor connection;
    pid_t process;
  };

  void accept_watchers(int listener);
  void refuse_watcher(int listener);
  [[nodiscard]] bool may_watch(const net::credentials& who) const;
  /// False if it has gone.
  [[nodiscard]] static bool find(const place& where, neighbour& out);
  [[nodiscard]] static bool is_still_there(const place& where, const neighbour& known);
  void add_to_epoll(int fd) const;
  void probe_soon();

  int epoll_;
  engine::reserve_descriptor reserve_;
  std::map<place, neighbour> neighbours_;
  std::map<place, engine::private_descriptor> announced_;  ///< listening
  std::map<int, watcher> watchers_;                        ///< by descriptor
  registered_disconnects registered_;
  held_disconnects held_;
  engine::clock::wall::time_point next_probe_ = engine::clock::wall::time_point::max();
};

}  // namespace softverbs::cm
