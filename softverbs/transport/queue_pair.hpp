// A queue pair without a network and without verbs: the two halves of the transport, the send queue
// between them and their user, and the states.
//
// A front end (transport/front_end.hpp) drives it:
//   work in         it fills the slots behind the newest request of `sends` and calls posted();
//   packets in      it calls receive() for each packet that comes from the peer, and after a burst
//                   of them answer() and send();
//   time            it calls on_timer() when next_deadline() has passed.
// In return the queue pair calls the front end for receive requests and gives it packets,
// completions and events. Where answer() or send() return true there is more to do at once; the
// front end calls again when others have had their turn.
//
// Nothing fails in the middle of something: a half that cannot go on says so, and the queue pair
// enters the error state when the half has returned.
//
// Owner: the front end, which also synchronises: one call at a time.
#pragma once

#include <cstdint>

#include <base/clock.hpp>
#include <net/address.hpp>
#include <transport/front_end.hpp>
#include <transport/memory_keys.hpp>
#include <transport/parameters.hpp>
#include <transport/requester.hpp>
#include <transport/responder.hpp>
#include <transport/send_queue.hpp>
#include <wire/packet.hpp>

namespace softverbs::transport {

/// A packet and the addresses that it came with.
struct received_packet {
  const wire::packet& packet;
  const net::address& source;
  const net::address& destination;
  /// The sender is another process of this host, or this one, and waits for flow control where the
  /// service has no acknowledgements.
  bool wants_flow_control = false;
};

class queue_pair {
 public:
  struct send_capacities {
    unsigned requests = 0;
    unsigned elements = 0;
    unsigned inline_bytes = 0;
  };
  queue_pair(const configuration& made, const send_capacities& capacities, memory_keys& memory,
             front_end& front);
  queue_pair(const queue_pair&) = delete;
  queue_pair& operator=(const queue_pair&) = delete;

  // --- states ---
  [[nodiscard]] state current() const noexcept { return state_; }
  /// A transition that the front end has found legal (10.3.1). The PSN is that of the half which
  /// begins with it: `rtr` the responder, `rts` after `rtr` the requester. To `error`: fail().
  void enter(state next, std::uint32_t first_psn = 0);
  /// In `sqd`: an event tells when what was begun is complete.
  void tell_when_drained() noexcept { tell_when_drained_ = true; }
  /// To the error state: everything that waits is flushed.
  void fail();

  // --- work in ---
  /// The first `count` slots behind the newest request have been filled.
  void posted(unsigned count);

  // --- packets in ---
  void receive(const received_packet& in);
  /// Sends answers that wait; true if there is more.
  bool answer();
  /// Only an acknowledgement waits, which can be sent later.
  [[nodiscard]] bool has_only_acknowledgement() const {
    return responder_.has_acknowledgement() && !responder_.has_answers();
  }
  /// Sends requests; true if there is more.
  bool send();

  // --- time ---
  void on_timer(time_point now);
  [[nodiscard]] time_point next_deadline() const;

  // --- to be looked at ---
  [[nodiscard]] std::uint32_t next_psn() const { return requester_.next_psn(); }
  [[nodiscard]] std::uint32_t expected_psn() const { return responder_.expected_psn(); }
  [[nodiscard]] bool is_drained() const { return requester_.is_idle(); }
  [[nodiscard]] const requester::totals& packets() const { return requester_.packets(); }

  const configuration made;
  parameters agreed;
  send_queue sends;

 private:
  [[nodiscard]] bool sends_requests() const noexcept {
    return state_ == state::rts || state_ == state::sqd;
  }
  void receive_datagram(const received_packet& in);
  /// What the halves could not go on with.
  void settle();
  void stop_send_queue();
  void flush_receives();

  front_end& front_;
  requester requester_;
  responder responder_;
  state state_ = state::reset;
  bool tell_when_drained_ = false;
};

}  // namespace softverbs::transport
