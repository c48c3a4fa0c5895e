// One end of a reliable connection: the messages and states of the communication manager (12.6,
// 12.9), without I/O.
//
// Messages, calls of the user and the time go in; messages, events, the time of the next timer and
// what has to happen to the queue pair come out, as a protocol_step. There is no lock, socket or
// clock in here, and no object of rdma_cm or ibverbs. The driver (cm_id) passes only messages from
// the peer's address, and calls on_timer() when due() has come.
//
//   active:   idle → req_sent → rep_received → established
//   passive:  idle → req_received → rep_sent → established
//   both:     established → dreq_sent | dreq_received → timewait → closed
//
// Where the specification leaves a choice, users see what the kernel's rdma_cm shows them.
//
// It has more than fifteen public functions because each input of the state table is one, and
// they change together.
#pragma once

#include <cstdint>
#include <optional>

#include <cm/protocol_step.hpp>
#include <cm/retransmission.hpp>
#include <engine/clock.hpp>
#include <wire/cm_message.hpp>

namespace softverbs::cm {

/// What both ends have agreed on, as the queue pair of this end needs it.
struct connection_terms {
  std::uint32_t own_qpn = 0;
  std::uint32_t peer_qpn = 0;  ///< 0: not known yet
  std::uint32_t own_psn = 0;   ///< that the peer's first packet has
  std::uint32_t peer_psn = 0;  ///< that this end's first packet has
  std::uint8_t responder_resources = 0;
  std::uint8_t initiator_depth = 0;
  std::uint8_t retry_count = 7;
  std::uint8_t rnr_retry_count = 7;
};

class connection {
 public:
  enum class state : std::uint8_t {
    idle,
    req_sent,
    req_received,  ///< the user has not answered yet
    rep_received,  ///< the user is not ready yet
    rep_sent,
    established,
    dreq_sent,
    dreq_received,  ///< the user has not answered yet
    timewait,
    closed
  };

  // --- inputs from the user ---
  /// The active side: sends the REQ, whose ids and terms become those of the connection.
  [[nodiscard]] protocol_step connect(const wire::cm_message& req, engine::time_point now);
  /// The passive side: a REQ that is no repetition.
  void receive_request(const wire::cm_message& req, std::uint32_t comm_id, std::uint32_t own_psn);
  /// `rep` carries the terms of this side; the ids are filled in.
  [[nodiscard]] protocol_step accept(wire::cm_message rep, engine::time_point now);
  /// `rej` carries reason and private data; the ids are filled in.
  [[nodiscard]] protocol_step reject(wire::cm_message rej);
  /// The queue pair is ready: sends the RTU that follows a REP.
  [[nodiscard]] protocol_step establish();
  /// The queue pair has received data: the peer is established even if its RTU was lost.
  [[nodiscard]] protocol_step data_arrived();
  [[nodiscard]] protocol_step disconnect(engine::time_point now);
  /// The user destroys this end. Only the message of the step counts.
  [[nodiscard]] protocol_step abandon();

  // --- inputs from the network and the host ---
  /// A message to this comm id, or a repetition of its REQ. `same_host`: the peer is a process of
  /// this host.
  [[nodiscard]] protocol_step on_message(const wire::cm_message& message, bool same_host,
                                         engine::time_point now);
  [[nodiscard]] protocol_step on_timer(engine::time_point now);
  /// The process of the peer has ended.
  [[nodiscard]] protocol_step on_peer_gone(engine::time_point now);
  /// The message of the last step was not sent: an errno; ECONNREFUSED if no process of this host
  /// would receive it.
  [[nodiscard]] protocol_step on_send_failure(int failure, engine::time_point now);

  // --- what it is ---
  [[nodiscard]] state current_state() const noexcept { return state_; }
  [[nodiscard]] engine::time_point due() const noexcept {
    return state_ == state::timewait ? timewait_end_ : request_.due();
  }
  [[nodiscard]] const connection_terms& terms() const noexcept { return terms_; }
  [[nodiscard]] std::uint32_t peer_comm_id() const noexcept { return peer_comm_id_; }
  /// What ends the connection.
  [[nodiscard]] wire::cm_message dreq() const;

 private:
  [[nodiscard]] wire::cm_message message_of(wire::cm_kind kind) const;
  [[nodiscard]] protocol_step send(const wire::cm_message& message) const;
  [[nodiscard]] protocol_step send_mra(wire::cm_answered what) const;
  [[nodiscard]] bool is_for_this(const wire::cm_message& message, bool same_host) const;
  [[nodiscard]] protocol_step on_message_of_peer(const wire::cm_message& message,
                                                 engine::time_point now);
  [[nodiscard]] protocol_step on_repeated_request();
  [[nodiscard]] protocol_step on_rep(const wire::cm_message& rep);
  [[nodiscard]] protocol_step on_rej(const wire::cm_message& rej, engine::time_point now);
  [[nodiscard]] protocol_step on_dreq(const wire::cm_message& dreq);
  [[nodiscard]] protocol_step on_first_send_failure(int failure, engine::time_point now);
  [[nodiscard]] protocol_step close(const protocol_step::notification& about);
  [[nodiscard]] protocol_step enter_timewait(engine::time_point now);

  state state_ = state::idle;
  bool active_ = false;
  std::uint32_t comm_id_ = 0;
  std::uint32_t peer_comm_id_ = 0;  ///< 0: not known yet
  std::uint64_t transaction_ = 0;
  std::uint64_t service_id_ = 0;
  std::uint64_t ca_guid_ = 0;  ///< of this side's REQ
  std::uint8_t local_ack_timeout_ = 0;
  connection_terms terms_;
  retransmission request_;                   ///< of the REQ, REP or DREQ that waits for an answer
  std::optional<wire::cm_message> refusal_;  ///< for repetitions of the REQ
  engine::time_point timewait_end_ = engine::never;
};

}  // namespace softverbs::cm
