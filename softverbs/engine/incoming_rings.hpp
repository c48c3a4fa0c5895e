// The packet rings that neighbours of this process write to: accepted, read in turn, and forgotten
// when their writers end, however they end.
//
// A ring is taken from processes of trusted users alone, and from each of them only so many. One
// that is too many is refused by closing its connection: its writer sends through sockets from then
// on, and what it has put into the ring is lost. When the process has no descriptors left, rings
// are refused in the same way.
//
// Owned by a station; every call is made with its receiving lock held.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include <engine/packet_ring.hpp>
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
    ring_reader reader;
    net::address source;
    net::address destination;
    std::uint16_t source_port = 0;
    std::uint16_t destination_port = 0;
    net::credentials writer;
  };

  /// Tells about the connection `fd` by on_event(tag) from now on.
  using watch_function = std::function<void(int fd, const void* tag)>;

  incoming_rings(const limits& bounds, watch_function watch);
  incoming_rings(const incoming_rings&) = delete;
  incoming_rings& operator=(const incoming_rings&) = delete;

  /// Neighbours wait. False if this process cannot even refuse them now: listening on would be
  /// spinning, so do something else for a while.
  [[nodiscard]] bool accept_from(const ring_listener& listener);
  /// Something has happened to the connection that was watched with that tag, which may be of a
  /// ring that exists no more. Bells are answered only if the caller is the thread that sleeps.
  void on_event(const void* tag, bool has_ended, bool answer_bells);

  [[nodiscard]] std::size_t size() const noexcept { return rings_.size(); }
  [[nodiscard]] bool is_empty() const noexcept { return rings_.empty(); }

  /// Calls `handle(ring)` for each ring that has packets; true if there was one. It may read from
  /// the ring.
  template <class Handle>
  bool read(Handle handle) {
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
  /// A connection without a ring as yet.
  struct newcomer {
    private_descriptor connection;
    net::credentials writer;
    net::address destination;
    std::uint16_t destination_port = 0;
  };
  enum class outcome : std::uint8_t { pending, taken, refused };

  [[nodiscard]] outcome take_offer(newcomer& from);
  [[nodiscard]] bool has_place_for(const net::credentials& writer) const;
  void forget(std::size_t index);

  limits limits_;
  watch_function watch_;
  reserve_descriptor reserve_;
  std::vector<std::unique_ptr<newcomer>> newcomers_;
  std::vector<std::unique_ptr<ring>> rings_;
};

}  // namespace softverbs::engine
