// The DREQs that end the connections of a process which has died without sending them.
//
// Peers on other hosts cannot notice that a process died. So it registers, for each connection, the
// DREQ with a neighbour: another process of this host that belongs to a trusted user. The neighbour
// sends the DREQs when the kernel reports the end of the process. It sends nothing else on behalf
// of a process: only a DREQ from a comm id whose port is a socket of that process's user.
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

struct orphan_disconnect {
  net::address own;
  net::address peer;
  wire::mad dreq{};
};

/// What a process sends to the neighbour that holds its DREQs.
struct orphan_disconnect_update {
  std::uint32_t comm_id = 0;   ///< of the connection that the DREQ ends
  std::uint32_t is_valid = 0;  ///< 1; 0: the DREQ is withdrawn
  orphan_disconnect disconnect;
};
/// From the bytes that a neighbour sent; nothing if it may not register that: see above.
[[nodiscard]] std::optional<orphan_disconnect_update> decode_orphan_disconnect(
    std::span<const std::byte> bytes);

/// The DREQs of this process, and the neighbour that holds a copy of them.
class registered_disconnects {
 public:
  /// Returns the descriptor of a holder that was found just now, whose end has to be watched;
  /// negative if there is none, or if it is watched already.
  [[nodiscard]] int add(std::uint32_t comm_id, const orphan_disconnect& disconnect);
  void remove(std::uint32_t comm_id);

  [[nodiscard]] bool are_held_by(int fd) const noexcept { return fd >= 0 && fd == holder_.get(); }
  /// Looks for another holder. Returns the same as add().
  [[nodiscard]] int holder_has_gone();

 private:
  [[nodiscard]] int find_holder();
  /// Null: the DREQ is withdrawn.
  void update_holder(std::uint32_t comm_id, const orphan_disconnect* disconnect) const;

  engine::private_descriptor holder_;
  std::uint16_t holder_port_ = 0;
  std::set<std::uint16_t> former_;  ///< ports of holders that have gone or had no room
  std::map<std::uint32_t, orphan_disconnect> by_comm_id_;
};

/// The DREQs of neighbours, by the descriptor that each neighbour is connected through.
class held_disconnects {
 public:
  static constexpr std::size_t most_of_one = 16384;
  static constexpr std::size_t most_in_all = 65536;

  void accept(int fd, uid_t user) {
    by_neighbour_[fd] = {.user = user, .port = {}, .disconnects = {}};
  }
  [[nodiscard]] bool knows(int fd) const { return by_neighbour_.contains(fd); }
  /// Reads the neighbour's updates; false if it has gone.
  [[nodiscard]] bool receive(int fd);
  /// The DREQs that have to be sent now that the neighbour has gone. Its descriptor is forgotten.
  [[nodiscard]] std::vector<orphan_disconnect> release(int fd);

 private:
  struct neighbour {
    uid_t user = 0;
    std::optional<std::pair<net::address, std::uint16_t>> port;  ///< known to be its user's
    std::map<std::uint32_t, orphan_disconnect> disconnects;      ///< by comm id
  };
  void apply(neighbour& from, const orphan_disconnect_update& update);

  std::map<int, neighbour> by_neighbour_;
  std::size_t held_ = 0;
};

}  // namespace softverbs::cm
