// The packet rings that this process writes to, one for each pair of an own and a foreign port.
//
// Routes share them, and the ones that were asked for last are kept although no route uses them at
// the moment, so that a queue pair that sends datagrams to many peers makes each ring once. There
// is a bound to that; when all rings are in use, further peers are reached through sockets, and so
// are those that have refused a ring, for a while.
//
// Owner: the netdev port, which has it watched as a packet source: the connections of the rings are
// in an epoll of their own, from which the ends of readers are learned. Any thread may call any
// function.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <list>
#include <map>
#include <memory>
#include <mutex>

#include <base/lock_order.hpp>
#include <engine/packet_ring.hpp>
#include <engine/packet_source.hpp>
#include <engine/private_descriptor.hpp>
#include <net/address.hpp>

namespace softverbs::engine {

class outgoing_rings final : public packet_source {
 public:
  struct ends {
    net::address own;
    net::address to;
    std::uint16_t port = 0;
    std::uint16_t to_port = 0;
    friend auto operator<=>(const ends&, const ends&) = default;
  };
  struct limits {
    std::size_t in_all = 1024;
    std::size_t idle = 128;  ///< that no route uses
  };

  explicit outgoing_rings(const limits& bounds);

  /// Readable when a reader has ended.
  [[nodiscard]] int fd() const noexcept { return connections_.get(); }

  /// Null if packets have to go through sockets.
  [[nodiscard]] std::shared_ptr<ring_writer> find_or_offer(const ends& between);
  /// Forgets the rings whose readers have ended. There are never packets.
  bool receive(receive_state& state, std::uint32_t events) override;

  /// Nothing has been sent for a while: a burst's memory is not kept.
  void release_memory();

  /// For tests: how many have ever been made.
  [[nodiscard]] std::uint64_t offered() const;

 private:
  struct entry {
    ends between;
    std::shared_ptr<ring_writer> ring;  ///< null: refused
    std::chrono::steady_clock::time_point refused_until;
    [[nodiscard]] bool is_idle() const { return ring == nullptr || ring.use_count() == 1; }
  };
  using entries = std::list<entry>;

  /// False if all places are taken by rings in use.
  [[nodiscard]] bool make_place();
  void forget(entries::iterator which);
  void watch(const ring_writer& ring) const;
  /// Of a ring that may be forgotten already.
  void on_end(const void* ring);

  mutable ranked_mutex<lock_rank::outgoing_rings> mutex_;
  limits limits_;
  private_descriptor connections_;  ///< the epoll
  entries recent_;                  ///< the latest first
  std::map<ends, entries::iterator> known_;
  std::uint64_t offered_ = 0;
};

}  // namespace softverbs::engine
