// What is to be said to peers on other hosts if this process dies: nobody else could tell them. A
// neighbour, another process of this host and of a trusted user, is given a copy of each such
// message and sends them when the kernel tells it that the process is gone. It says nothing for a
// process but the end of its own connections: a DREQ from an identifier whose port is a socket of
// that user.
//
// All functions are called with the agent's lock held; none of them waits.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <utility>
#include <vector>

#include <engine/private_descriptor.hpp>
#include <net/address.hpp>
#include <sys/types.h>
#include <wire/cm_message.hpp>

namespace softverbs::cm {

struct last_will {
  net::address own;
  net::address peer;
  wire::mad message{};
};

/// What a neighbour is told.
struct will_letter {
  std::uint32_t number = 0;    ///< the communication identifier whose end it is
  std::uint32_t is_valid = 0;  ///< 1; 0: it is taken back
  last_will will;
};
/// From what a neighbour sent; nothing if that is not what a process may leave: see above.
[[nodiscard]] std::optional<will_letter> decode_will(std::span<const std::byte> bytes);

/// The wills of this process and the neighbour that keeps them.
class testament {
 public:
  /// Returns the descriptor of a neighbour that was found just now, whose end has to be watched;
  /// negative if there is none, or it is known already.
  [[nodiscard]] int add(std::uint32_t number, const last_will& will);
  void remove(std::uint32_t number);

  [[nodiscard]] bool is_kept_by(int fd) const noexcept { return fd >= 0 && fd == keeper_.get(); }
  /// Another one is found, if there is any: as with add().
  [[nodiscard]] int keeper_has_gone();

 private:
  [[nodiscard]] int find_keeper();
  /// Null: it is taken back.
  void tell(std::uint32_t number, const last_will* will) const;

  engine::private_descriptor keeper_;
  std::uint16_t keeper_port_ = 0;
  std::set<std::uint16_t> former_;  ///< ports of those that have gone or had no room
  std::map<std::uint32_t, last_will> wills_;
};

/// The wills of neighbours, by the descriptor that they are connected through.
class kept_wills {
 public:
  static constexpr std::size_t most_of_one = 16384;
  static constexpr std::size_t most_in_all = 65536;

  void accept(int fd, uid_t user) { by_neighbour_[fd] = {.user = user, .port = {}, .wills = {}}; }
  [[nodiscard]] bool knows(int fd) const { return by_neighbour_.contains(fd); }
  /// Takes what the neighbour tells; false if it has gone.
  [[nodiscard]] bool receive(int fd);
  /// What its peers have to be told now; the descriptor is forgotten.
  [[nodiscard]] std::vector<last_will> open(int fd);

 private:
  struct neighbour {
    uid_t user = 0;
    std::optional<std::pair<net::address, std::uint16_t>> port;  ///< known to be its user's
    std::map<std::uint32_t, last_will> wills;
  };
  void take(neighbour& from, const will_letter& letter);

  std::map<int, neighbour> by_neighbour_;
  std::size_t wills_ = 0;
};

}  // namespace softverbs::cm
