// Gives the packets that came from one sender to the queue pairs of this process: checks them,
// records them for SOFTVERBS_CAPTURE, finds the queue pair by its number and holds its lock for as
// long as packets for it keep coming.
//
// Lives on the stack of the thread that receives, for one train of packets or one turn of a ring;
// the queue pair that came last sends its answers at the end. No endpoint's lock may be held.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>

#include <engine/endpoint.hpp>
#include <wire/icrc.hpp>

namespace softverbs::engine {

class packet_delivery {
 public:
  using endpoints = std::span<const std::shared_ptr<endpoint>>;

  struct origin {
    wire::flow flow;
    /// By the process's own port (same_host) or by UDP port 4791, in whichever process.
    inbound::path came = inbound::path::same_host;
    wire::icrc_rule icrc = wire::icrc_rule::always;
    /// The receiving thread is a user's, which comes back soon: an acknowledgement may wait for it.
    bool called_by_user = false;
  };

  explicit packet_delivery(const origin& from) : from_(from) {}
  packet_delivery(const packet_delivery&) = delete;
  packet_delivery& operator=(const packet_delivery&) = delete;
  ~packet_delivery() { let_go(); }

  /// To the queue pair that the packet names, if it is one of this process.
  void deliver(std::span<const std::byte> datagram);
  /// To each member of the group that the packet was sent to.
  void deliver_to_group(std::span<const std::byte> datagram, endpoints members);

  /// Calls `each(datagram)` for the packets of a train: all but the last are of that size.
  template <class Each>
  static void for_each_packet(std::span<const std::byte> train, std::size_t segment_bytes,
                              Each each) {
    while (!train.empty()) {
      const auto datagram = train.first(std::min(train.size(), segment_bytes));
      train = train.subspan(datagram.size());
      each(datagram);
    }
  }
  void deliver_train(std::span<const std::byte> train, std::size_t segment_bytes) {
    for_each_packet(train, segment_bytes, [this](auto datagram) { deliver(datagram); });
  }

 private:
  void hold(std::shared_ptr<endpoint> who);
  void let_go();
  void give(const wire::packet& packet) const;

  origin from_;
  std::shared_ptr<endpoint> receiver_;
  std::unique_lock<decltype(endpoint::mutex)> lock_;
};

}  // namespace softverbs::engine
