// Receives what has come to this process through one netdev, and gives it to the queue pairs.
//
// One thread at a time receives, under the receiving lock: a user that polls a completion queue
// does it for itself, else the progress thread does. A user that polls looks into the packet rings
// and asks the source that was busiest, and the kernel about all of them only now and then.
//
// Owner: the netdev port. Any thread may call any function, with no endpoint's lock held, except
// where it says otherwise.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include <base/lock_order.hpp>
#include <engine/endpoint.hpp>
#include <engine/incoming_rings.hpp>
#include <engine/multicast_group.hpp>
#include <engine/packet_source.hpp>
#include <engine/packet_sources.hpp>
#include <engine/port_lease.hpp>
#include <engine/timer_queue.hpp>
#include <net/address.hpp>

namespace softverbs::engine {

class packet_receiver {
 public:
  explicit packet_receiver(timer_queue& timers);
  packet_receiver(const packet_receiver&) = delete;
  packet_receiver& operator=(const packet_receiver&) = delete;

  [[nodiscard]] packet_sources& sources() noexcept { return sources_; }
  /// Receives what comes to the address from now on. Any lock but the receiving lock may be held.
  void watch(const leased_address& own);

  /// 0 or an errno; `added` tells whether it was not attached before.
  [[nodiscard]] int attach(const std::shared_ptr<endpoint>& who, const net::address& group,
                           unsigned netdev_index, bool& added);
  /// False if it was not attached.
  [[nodiscard]] bool detach(const endpoint& who, const net::address& group);

  /// For a user: what came where packets are likely; nothing if another thread receives.
  void poll();
  /// Everything that is there, after acknowledgements that were put off. True if there were
  /// packets.
  bool receive();
  /// The queue pair's acknowledgement is sent with the next poll() or receive(). The receiving lock
  /// and the endpoint's are held: it is called from where packets are delivered.
  void acknowledge_later(endpoint& who) { acknowledgements_.push_back(who.shared_from_this()); }

  enum class readiness : std::uint8_t { may_sleep, packets_wait, another_receives };
  /// From here on neighbours wake the progress thread with a doorbell when they write into a ring.
  [[nodiscard]] readiness prepare_for_sleep();

 private:
  class own_socket;
  class handed_over;
  class ring_offers;

  /// With the receiving lock held.
  bool receive_all();
  bool receive_rings();
  void send_deferred_acknowledgements();
  void own(std::unique_ptr<packet_source> source, int fd);

  ranked_mutex<lock_rank::receiving> receiving_;
  receive_state state_;
  packet_sources sources_;
  incoming_rings incoming_;
  multicast_groups groups_;
  unsigned polls_since_look_ = 0;
  std::vector<std::shared_ptr<endpoint>> acknowledgements_;

  std::mutex owned_mutex_;
  std::vector<std::unique_ptr<packet_source>> owned_;  ///< the sources of leased addresses
};

}  // namespace softverbs::engine
