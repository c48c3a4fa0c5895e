// What is to be said to peers on other hosts if this process dies: nobody else could tell them. A
// neighbour, another process of this host, is given a copy of each such message and sends them when
// the kernel tells it that the process is gone.
//
// All functions are called with the agent's lock held; none of them waits.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include <net/address.hpp>
#include <wire/cm_message.hpp>

namespace softverbs::cm {

struct last_will {
  net::address own;
  net::address peer;
  wire::mad message{};
};

/// The wills of this process and the neighbour that keeps them.
class testament {
 public:
  /// Returns the descriptor of a neighbour that was found just now, whose end has to be watched;
  /// negative if there is none, or it is known already.
  [[nodiscard]] int add(std::uint32_t number, const last_will& will);
  void remove(std::uint32_t number);

  [[nodiscard]] bool is_kept_by(int fd) const noexcept { return fd >= 0 && fd == keeper_; }
  /// Another one is found, if there is any: as with add().
  [[nodiscard]] int keeper_has_gone();

 private:
  [[nodiscard]] int find_keeper();
  /// Null: it is taken back.
  void tell(std::uint32_t number, const last_will* will) const;

  int keeper_ = -1;
  std::map<std::uint32_t, last_will> wills_;
};

/// The wills of neighbours, by the descriptor that they are connected through.
class kept_wills {
 public:
  void accept(int fd) { by_neighbour_[fd] = {}; }
  [[nodiscard]] bool knows(int fd) const { return by_neighbour_.contains(fd); }
  /// Takes what the neighbour tells; false if it has gone.
  [[nodiscard]] bool receive(int fd);
  /// What its peers have to be told now; the descriptor is forgotten.
  [[nodiscard]] std::vector<last_will> open(int fd);

 private:
  std::map<int, std::map<std::uint32_t, last_will>> by_neighbour_;
};

}  // namespace softverbs::cm
