// The packet rings that neighbours of this process write to: accepted, read in turn, and forgotten
// when their writers end, however they end.
//
// A ring is taken from processes of trusted users alone, and from each of them only so many. One
// that is too many is refused by closing its connection: its writer sends through sockets from then
// on, and what it has put into the ring is lost. When the process has no descriptors left, rings
// are refused in the same way.
//
// Owner: the packet_receiver; every call is made with its receiving lock held.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include <engine/packet_ring.hpp>
#include <engine/packet_source.hpp>
#include <engine/reserve_descriptor.hpp>
#include <engine/ring_listener.hpp>
#include <net/address.hpp>
#include <net/credentials.hpp>

namespace softverbs::engine {

class incoming_rings {
 public:
  struct limits {
    std::size_t in_all = 1024;
    std::size_t from_one_process = 64;
    std::size_t without_offer = 16;  ///< connections over which no ring has come yet
  };
  /// As many rings as a quarter of the descriptors that the process may have, 1024 at most.
  [[nodiscard]] static limits limits_of_process();

  /// A ring and what its writer says of itself.
  struct ring {
    std::unique_ptr<packet_source> connection;  ///< what is watched
    ring_reader reader;
    net::address source;
    net::address destination;
    std::uint16_t source_port = 0;
    std::uint16_t destination_port = 0;
    net::credentials writer;
  };

  /// Has its connections watched by `watcher`.
  incoming_rings(const limits& bounds, source_watcher& watcher);
  incoming_rings(const incoming_rings&) = delete;
  incoming_rings& operator=(const incoming_rings&) = delete;

  /// Neighbours wait. False if this process cannot even refuse them now: listening on would be
  /// spinning, so do something else for a while.
  [[nodiscard]] bool accept_from(const ring_listener& listener);
  /// Something has happened to the connection, which may be of a ring that exists no more.
  /// Doorbells are answered only if the caller is the thread that sleeps.
  void on_event(const packet_source& connection, bool has_ended, bool answer_doorbells);

  [[nodiscard]] std::size_t size() const noexcept { return rings_.size(); }
  [[nodiscard]] bool is_empty() const noexcept { return rings_.empty(); }

  /// Calls `handle(ring)` for each ring that has packets; true if there was one. It may read from
  /// the ring.
  template <class Handle>
  bool read(Handle handle) {
    ended_.clear();
    bool any = false;
    for (std::size_t i = 0; i < rings_.size(); ++i) {
      auto& each = *rings_[i];
      if (each.reader.has_packets()) {
        handle(each);
        any = true;
      }
      if (each.reader.is_finished()) forget(i--);
    }
    return any;
  }

  /// False if packets came in meanwhile.
  [[nodiscard]] bool prepare_for_sleep();

 private:
  class watched_connection;
  /// A connection without a ring as yet.
  struct newcomer {
    std::unique_ptr<packet_source> watched;
    private_descriptor connection;
    net::credentials writer;
    net::address destination;
    std::uint16_t destination_port = 0;
  };
  enum class outcome : std::uint8_t { pending, taken, refused };

  [[nodiscard]] outcome take_offer(newcomer& from);
  [[nodiscard]] bool has_place_for(const net::credentials& writer) const;
  [[nodiscard]] std::unique_ptr<packet_source> make_source();
  void end(newcomer& who);
  void forget(std::size_t index);

  limits limits_;
  source_watcher& watcher_;
  reserve_descriptor reserve_;
  std::vector<std::unique_ptr<newcomer>> newcomers_;
  std::vector<std::unique_ptr<ring>> rings_;
  /// Of connections that were closed: whoever handles what is ready may still ask them. Nobody does
  /// while the rings are read.
  std::vector<std::unique_ptr<packet_source>> ended_;
};

}  // namespace softverbs::engine
