// The state machine of a connection, message by message. Suites are named after the clauses of the
// InfiniBand specification, volume 1, that define the messages.
#include <cm/connection.hpp>

#include <array>
#include <cerrno>
#include <chrono>
#include <optional>
#include <ostream>
#include <string_view>
#include <vector>

#include <gtest/gtest.h>

namespace softverbs::cm {
namespace {

using namespace std::chrono_literals;
using engine::time_point;
using wire::cm_kind;
using state = connection::state;
using watch = protocol_step::watch;

constexpr time_point start{1h};
constexpr std::uint32_t own_id = 0x11110001;
constexpr std::uint32_t peer_id = 0x22220002;
constexpr std::uint64_t transaction = 0x1234567890abcdef;
constexpr std::uint64_t guid = 0xfeedface;

wire::cm_message own_req() {
  wire::cm_message req{.kind = cm_kind::req, .transaction = transaction, .local_id = own_id};
  req.ca_guid = guid;
  req.service_id = 0x1061d6c;
  req.qpn = 0x100;
  req.starting_psn = 0x1000;
  req.responder_resources = 4;
  req.initiator_depth = 3;
  req.retry_count = 5;
  req.rnr_retry_count = 6;
  req.ack_timeout = 19;
  return req;
}

wire::cm_message peer_req() {
  auto req = own_req();
  req.local_id = peer_id;
  req.qpn = 0x200;
  req.starting_psn = 0x2000;
  return req;
}

/// What a peer that knows this end sends.
wire::cm_message from_peer(cm_kind kind) {
  if (kind == cm_kind::req) return peer_req();
  wire::cm_message message{
      .kind = kind, .transaction = transaction, .local_id = peer_id, .remote_id = own_id};
  message.qpn = 0x200;
  message.starting_psn = 0x2000;
  message.responder_resources = 2;
  message.initiator_depth = 1;
  message.rnr_retry_count = 3;
  message.service_timeout = 24;
  return message;
}

wire::cm_message own_rep() {
  wire::cm_message rep;
  rep.qpn = 0x100;
  rep.starting_psn = 0x1000;
  rep.responder_resources = 3;
  rep.initiator_depth = 4;
  return rep;
}

protocol_step hear(connection& one, cm_kind kind, time_point now = start) {
  return one.on_message(from_peer(kind), true, now);
}

/// A connection that got to the state in the ordinary way.
connection in(state wanted, bool active) {
  connection one;
  if (wanted == state::idle) return one;
  if (active) {
    EXPECT_EQ(one.connect(own_req(), start).error, 0);
    if (wanted == state::req_sent) return one;
    static_cast<void>(hear(one, cm_kind::rep));
    if (wanted == state::rep_received) return one;
    EXPECT_EQ(one.establish().error, 0);
  } else {
    one.receive_request(peer_req(), own_id, 0x1000);
    if (wanted == state::req_received) return one;
    EXPECT_EQ(one.accept(own_rep(), start).error, 0);
    if (wanted == state::rep_sent) return one;
    static_cast<void>(hear(one, cm_kind::rtu));
  }
  if (wanted == state::established) return one;
  if (wanted == state::dreq_received) {
    static_cast<void>(hear(one, cm_kind::dreq));
    return one;
  }
  EXPECT_EQ(one.disconnect(start).error, 0);
  if (wanted == state::dreq_sent) return one;
  static_cast<void>(hear(one, cm_kind::drep));
  if (wanted == state::timewait) return one;
  static_cast<void>(one.on_timer(one.due()));
  return one;
}

struct stage {
  state in;
  bool active;
};
constexpr std::array every_stage{
    stage{state::idle, true},           stage{state::req_sent, true},
    stage{state::rep_received, true},   stage{state::established, true},
    stage{state::dreq_sent, true},      stage{state::dreq_received, true},
    stage{state::timewait, true},       stage{state::closed, true},
    stage{state::req_received, false},  stage{state::rep_sent, false},
    stage{state::established, false},   stage{state::dreq_sent, false},
    stage{state::dreq_received, false}, stage{state::timewait, false},
    stage{state::closed, false}};

constexpr std::array every_kind{cm_kind::req,  cm_kind::mra,      cm_kind::rej,
                                cm_kind::rep,  cm_kind::rtu,      cm_kind::dreq,
                                cm_kind::drep, cm_kind::sidr_req, cm_kind::sidr_rep};

bool is_nothing(const protocol_step& step) {
  return step.error == 0 && !step.fail_queue_pair && step.peer == watch::unchanged && !step.send &&
         !step.notify;
}

// --- the table -------------------------------------------------------------------------------

struct transition {
  state from;
  bool active;
  cm_kind message;
  state to;
  std::optional<cm_kind> answer{};
  std::optional<protocol_event> told{};
};

const std::vector<transition> table{
    // The active side.
    {state::req_sent, true, cm_kind::rep, state::rep_received, {}, protocol_event::replied},
    {state::req_sent, true, cm_kind::rej, state::closed, {}, protocol_event::rejected},
    {state::rep_received, true, cm_kind::rep, state::rep_received, cm_kind::mra},
    {state::rep_received, true, cm_kind::rej, state::closed, {}, protocol_event::rejected},
    {state::rep_received,
     true,
     cm_kind::dreq,
     state::dreq_received,
     {},
     protocol_event::disconnected},
    {state::established, true, cm_kind::rep, state::established, cm_kind::rtu},
    // The passive side.
    {state::req_received, false, cm_kind::req, state::req_received, cm_kind::mra},
    {state::req_received, false, cm_kind::rej, state::closed},
    {state::rep_sent, false, cm_kind::req, state::rep_sent, cm_kind::rep},
    {state::rep_sent, false, cm_kind::rtu, state::established, {}, protocol_event::established},
    {state::rep_sent, false, cm_kind::rej, state::closed, {}, protocol_event::rejected},
    {state::rep_sent, false, cm_kind::dreq, state::dreq_received, {}, protocol_event::disconnected},
    // Both.
    {state::established, true, cm_kind::rej, state::closed, {}, protocol_event::rejected},
    {state::established, false, cm_kind::rej, state::closed, {}, protocol_event::rejected},
    {state::established,
     true,
     cm_kind::dreq,
     state::dreq_received,
     {},
     protocol_event::disconnected},
    {state::established,
     false,
     cm_kind::dreq,
     state::dreq_received,
     {},
     protocol_event::disconnected},
    {state::dreq_sent, true, cm_kind::drep, state::timewait, {}, protocol_event::disconnected},
    {state::dreq_sent, false, cm_kind::drep, state::timewait, {}, protocol_event::disconnected},
    {state::dreq_sent, true, cm_kind::rej, state::timewait, {}, protocol_event::disconnected},
    {state::dreq_sent, false, cm_kind::rej, state::timewait, {}, protocol_event::disconnected},
    {state::dreq_sent, true, cm_kind::dreq, state::dreq_received, {}, protocol_event::disconnected},
    {state::dreq_sent,
     false,
     cm_kind::dreq,
     state::dreq_received,
     {},
     protocol_event::disconnected},
    {state::timewait, true, cm_kind::dreq, state::timewait, cm_kind::drep},
    {state::timewait, false, cm_kind::dreq, state::timewait, cm_kind::drep},
    {state::closed, true, cm_kind::dreq, state::closed, cm_kind::drep},
    {state::closed, false, cm_kind::dreq, state::closed, cm_kind::drep},
};

TEST(ib_12_9_states, every_message_in_every_state_follows_the_table_and_the_rest_is_ignored) {
  for (const auto& from : every_stage) {
    for (const auto kind : every_kind) {
      transition expected{from.in, from.active, kind, from.in, {}, {}};
      for (const auto& row : table) {
        if (row.from == from.in && row.active == from.active && row.message == kind) expected = row;
      }
      auto one = in(from.in, from.active);
      ASSERT_EQ(one.current_state(), from.in);
      const auto step = hear(one, kind);
      SCOPED_TRACE(testing::Message()
                   << "state " << static_cast<int>(from.in) << " active " << from.active
                   << " message " << std::hex << static_cast<int>(kind));
      EXPECT_EQ(one.current_state(), expected.to);
      EXPECT_EQ(step.send ? std::optional(step.send->kind) : std::nullopt, expected.answer);
      EXPECT_EQ(step.notify ? std::optional(step.notify->event) : std::nullopt, expected.told);
      EXPECT_EQ(step.error, 0);
      if (step.send) {
        EXPECT_EQ(step.send->local_id, own_id);
        EXPECT_EQ(step.send->remote_id, peer_id);
      }
    }
  }
}

TEST(ib_12_9_states, messages_of_other_connections_are_ignored) {
  for (const auto& from : every_stage) {
    for (const auto kind : every_kind) {
      auto stale = from_peer(kind);
      stale.local_id ^= 1U;  // of an earlier connection of the peer
      auto foreign = from_peer(kind);
      foreign.remote_id ^= 1U;
      for (const auto& message : {stale, foreign}) {
        // A REQ names no receiver, and before the first answer any sender may be the peer.
        if (kind == cm_kind::req && message.local_id == peer_id) continue;
        if (from.in == state::req_sent && message.remote_id == own_id) continue;
        auto one = in(from.in, from.active);
        const auto due = one.due();
        EXPECT_TRUE(is_nothing(one.on_message(message, true, start + 1ms)));
        EXPECT_EQ(one.current_state(), from.in);
        EXPECT_EQ(one.due(), due);
      }
    }
  }
}

TEST(ib_12_9_states, on_one_host_an_answer_carries_the_transaction_id_of_the_request) {
  for (const auto kind : {cm_kind::rep, cm_kind::rej, cm_kind::mra}) {
    auto forged = from_peer(kind);
    forged.transaction ^= 1U;
    auto one = in(state::req_sent, true);
    const auto due = one.due();
    EXPECT_TRUE(is_nothing(one.on_message(forged, true, start)));
    EXPECT_EQ(one.due(), due);
    EXPECT_EQ(one.current_state(), state::req_sent);
    // Between hosts the network is trusted.
    static_cast<void>(one.on_message(forged, false, start));
    EXPECT_NE(one.due(), due);
  }
}

// --- REQ -------------------------------------------------------------------------------------

TEST(ib_12_6_5_req, is_sent_and_repeated_until_the_peer_is_unreachable) {
  connection one;
  const auto step = one.connect(own_req(), start);
  ASSERT_TRUE(step.send);
  EXPECT_EQ(*step.send, own_req());
  int repetitions = 0;
  for (;;) {
    EXPECT_TRUE(is_nothing(one.on_timer(one.due() - 1ns)));
    const auto next = one.on_timer(one.due());
    if (!next.send) {
      ASSERT_TRUE(next.notify);
      EXPECT_EQ(next.notify->event, protocol_event::unreachable);
      EXPECT_EQ(next.notify->status, -ETIMEDOUT);
      break;
    }
    EXPECT_EQ(*next.send, own_req());
    ++repetitions;
  }
  EXPECT_EQ(repetitions, 15);
  EXPECT_EQ(one.current_state(), state::closed);
  EXPECT_EQ(one.due(), engine::never);
}

TEST(ib_12_6_5_req, is_possible_once) {
  for (const auto& from : every_stage) {
    if (from.in == state::idle) continue;
    auto one = in(from.in, from.active);
    const auto step = one.connect(own_req(), start);
    EXPECT_EQ(step.error, EINVAL);
    EXPECT_FALSE(step.send);
    EXPECT_EQ(one.current_state(), from.in);
  }
}

TEST(ib_12_6_5_req, gives_its_receiver_the_terms_of_the_sender) {
  const auto one = in(state::req_received, false);
  const auto& terms = one.terms();
  EXPECT_EQ(terms.peer_qpn, 0x200U);
  EXPECT_EQ(terms.peer_psn, 0x2000U);
  EXPECT_EQ(terms.own_psn, 0x1000U);
  // The sender's depth is what the receiver holds resources for.
  EXPECT_EQ(terms.responder_resources, 3);
  EXPECT_EQ(terms.initiator_depth, 4);
  EXPECT_EQ(terms.retry_count, 5);
  EXPECT_EQ(terms.rnr_retry_count, 6);
  EXPECT_EQ(one.due(), engine::never);  // the user may take its time
}

TEST(ib_12_6_5_req, that_is_repeated_after_a_refusal_is_refused_again) {
  auto one = in(state::req_received, false);
  wire::cm_message rej;
  rej.reason = 28;
  const auto refusal = one.reject(rej);
  ASSERT_TRUE(refusal.send);
  const auto again = hear(one, cm_kind::req);
  ASSERT_TRUE(again.send);
  EXPECT_EQ(*again.send, *refusal.send);
}

TEST(ib_12_6_5_req, that_finds_no_listener_on_this_host_is_rejected_after_ten_attempts) {
  connection one;
  auto step = one.connect(own_req(), start);
  auto now = start;
  for (int i = 1; i < 10; ++i) {
    EXPECT_TRUE(is_nothing(one.on_send_failure(ECONNREFUSED, now)));
    EXPECT_EQ(one.due(), now + 5ms);
    now = one.due();
    step = one.on_timer(now);
    ASSERT_TRUE(step.send);
  }
  step = one.on_send_failure(ECONNREFUSED, now);
  ASSERT_TRUE(step.notify);
  EXPECT_EQ(step.notify->event, protocol_event::rejected);
  EXPECT_EQ(step.notify->status, static_cast<int>(wire::reject_reason::invalid_service));
  EXPECT_TRUE(step.notify->message);
  EXPECT_EQ(one.current_state(), state::closed);
  EXPECT_EQ(one.due(), engine::never);
}

TEST(ib_12_6_5_req, whose_listener_goes_after_it_was_delivered_is_repeated_on) {
  auto one = in(state::req_sent, true);
  ASSERT_TRUE(one.on_timer(one.due()).send);
  const auto due = one.due();
  EXPECT_TRUE(is_nothing(one.on_send_failure(ECONNREFUSED, start)));
  EXPECT_EQ(one.due(), due);
  EXPECT_EQ(one.current_state(), state::req_sent);
}

TEST(ib_12_6_5_req, that_cannot_be_sent_leaves_the_connection_idle) {
  connection one;
  static_cast<void>(one.connect(own_req(), start));
  EXPECT_EQ(one.on_send_failure(EADDRNOTAVAIL, start).error, EADDRNOTAVAIL);
  EXPECT_EQ(one.current_state(), state::idle);
  EXPECT_EQ(one.due(), engine::never);
  EXPECT_TRUE(one.connect(own_req(), start).send);
}

TEST(ib_12_6_5_req, whose_repetition_cannot_be_sent_counts_as_lost) {
  for (const bool looks_for_listener : {false, true}) {
    auto one = in(state::req_sent, true);
    if (looks_for_listener) {
      EXPECT_TRUE(is_nothing(one.on_send_failure(ECONNREFUSED, start)));
    }
    ASSERT_TRUE(one.on_timer(one.due()).send);
    EXPECT_TRUE(is_nothing(one.on_send_failure(EADDRNOTAVAIL, start)));
    EXPECT_EQ(one.current_state(), state::req_sent);
    EXPECT_NE(one.due(), engine::never);
  }
}

// --- MRA -------------------------------------------------------------------------------------

TEST(ib_12_6_6_mra, postpones_the_repetition_of_req_and_rep) {
  for (const auto& from : {stage{state::req_sent, true}, stage{state::rep_sent, false}}) {
    auto one = in(from.in, from.active);
    EXPECT_TRUE(is_nothing(hear(one, cm_kind::mra)));
    EXPECT_EQ(one.due(), start + std::chrono::nanoseconds(std::int64_t{4096} << 24));
    EXPECT_TRUE(one.on_timer(one.due()).send);
  }
}

TEST(ib_12_6_6_mra, does_not_postpone_a_dreq) {
  auto one = in(state::dreq_sent, true);
  const auto due = one.due();
  EXPECT_TRUE(is_nothing(hear(one, cm_kind::mra)));
  EXPECT_EQ(one.due(), due);
}

TEST(ib_12_6_6_mra, is_sent_while_the_user_takes_its_time) {
  auto passive = in(state::req_received, false);
  auto active = in(state::rep_received, true);
  const auto for_req = hear(passive, cm_kind::req).send;
  const auto for_rep = hear(active, cm_kind::rep).send;
  ASSERT_TRUE(for_req && for_rep);
  EXPECT_EQ(for_req->answered, wire::cm_answered::req);
  EXPECT_EQ(for_rep->answered, wire::cm_answered::rep);
  EXPECT_EQ(for_req->service_timeout, 24);
  EXPECT_EQ(for_rep->service_timeout, 24);
}

// --- REJ -------------------------------------------------------------------------------------

TEST(ib_12_6_7_rej, tells_reason_and_private_data) {
  auto rej = from_peer(cm_kind::rej);
  rej.reason = 28;
  rej.private_data[0] = std::byte{42};
  for (const auto& from : {stage{state::req_sent, true}, stage{state::rep_received, true},
                           stage{state::rep_sent, false}, stage{state::established, true}}) {
    auto one = in(from.in, from.active);
    const auto step = one.on_message(rej, true, start);
    ASSERT_TRUE(step.notify);
    EXPECT_EQ(step.notify->status, 28);
    EXPECT_EQ(step.notify->message, rej);
    EXPECT_EQ(step.peer, watch::stop);
    EXPECT_EQ(one.due(), engine::never);
    EXPECT_TRUE(is_nothing(one.on_message(rej, true, start)));
  }
}

TEST(ib_12_6_7_rej, is_sent_only_to_a_peer_that_waits_for_an_answer) {
  for (const auto& from : every_stage) {
    auto one = in(from.in, from.active);
    const bool waits = from.in == state::req_received || from.in == state::rep_received;
    const auto step = one.reject({});
    EXPECT_EQ(step.error, waits ? 0 : EINVAL);
    EXPECT_EQ(step.send.has_value(), waits);
    EXPECT_EQ(one.current_state(), waits ? state::closed : from.in);
    if (waits) {
      EXPECT_EQ(step.send->answered, from.active ? wire::cm_answered::rep : wire::cm_answered::req);
    }
  }
}

TEST(ib_12_6_7_rej, withdraws_a_request_by_the_comm_id_of_its_sender) {
  auto withdrawal = from_peer(cm_kind::rej);
  withdrawal.remote_id = 0;
  auto passive = in(state::req_received, false);
  EXPECT_TRUE(is_nothing(passive.on_message(withdrawal, true, start)));
  EXPECT_EQ(passive.current_state(), state::closed);
  EXPECT_EQ(passive.accept(own_rep(), start).error, EINVAL);
  auto active = in(state::req_sent, true);
  EXPECT_TRUE(is_nothing(active.on_message(withdrawal, true, start)));
  EXPECT_EQ(active.current_state(), state::req_sent);
}

TEST(ib_12_6_7_rej, that_cannot_be_sent_is_told_unless_the_peer_has_gone) {
  for (const int failure : {ECONNREFUSED, EADDRNOTAVAIL}) {
    auto one = in(state::req_received, false);
    static_cast<void>(one.reject({}));
    EXPECT_EQ(one.on_send_failure(failure, start).error, failure == ECONNREFUSED ? 0 : failure);
    EXPECT_EQ(one.current_state(), state::closed);
  }
}

// --- REP -------------------------------------------------------------------------------------

TEST(ib_12_6_8_rep, gives_its_receiver_the_terms_of_the_sender) {
  connection one;
  static_cast<void>(one.connect(own_req(), start));
  const auto step = hear(one, cm_kind::rep);
  EXPECT_EQ(step.peer, watch::start);
  ASSERT_TRUE(step.notify);
  EXPECT_EQ(step.notify->message, from_peer(cm_kind::rep));
  const auto& terms = one.terms();
  EXPECT_EQ(one.peer_comm_id(), peer_id);
  EXPECT_EQ(terms.own_qpn, 0x100U);
  EXPECT_EQ(terms.peer_qpn, 0x200U);
  EXPECT_EQ(terms.own_psn, 0x1000U);
  EXPECT_EQ(terms.peer_psn, 0x2000U);
  EXPECT_EQ(terms.responder_resources, 1);
  EXPECT_EQ(terms.initiator_depth, 2);
  EXPECT_EQ(terms.retry_count, 5);
  EXPECT_EQ(terms.rnr_retry_count, 3);
  EXPECT_EQ(one.due(), engine::never);
}

TEST(ib_12_6_8_rep, is_sent_and_repeated_until_the_peer_is_unreachable) {
  auto one = in(state::req_received, false);
  const auto step = one.accept(own_rep(), start);
  ASSERT_TRUE(step.send);
  EXPECT_EQ(step.peer, watch::start);
  EXPECT_EQ(step.send->transaction, transaction);
  int repetitions = 0;
  auto next = one.on_timer(one.due());
  for (; next.send; next = one.on_timer(one.due())) {
    EXPECT_EQ(*next.send, *step.send);
    ++repetitions;
  }
  EXPECT_EQ(repetitions, 15);
  ASSERT_TRUE(next.notify);
  EXPECT_EQ(next.notify->event, protocol_event::unreachable);
  EXPECT_EQ(next.peer, watch::stop);
  EXPECT_EQ(one.current_state(), state::closed);
}

TEST(ib_12_6_8_rep, that_cannot_be_sent_leaves_the_request_open) {
  auto one = in(state::rep_sent, false);
  const auto step = one.on_send_failure(EADDRNOTAVAIL, start);
  EXPECT_EQ(step.error, EADDRNOTAVAIL);
  EXPECT_EQ(step.peer, watch::stop);
  EXPECT_EQ(one.current_state(), state::req_received);
  EXPECT_EQ(one.due(), engine::never);
}

TEST(ib_12_6_8_rep, whose_repetition_cannot_be_sent_counts_as_lost) {
  auto one = in(state::rep_sent, false);
  ASSERT_TRUE(hear(one, cm_kind::req).send);
  EXPECT_TRUE(is_nothing(one.on_send_failure(EADDRNOTAVAIL, start)));
  EXPECT_EQ(one.current_state(), state::rep_sent);
  ASSERT_TRUE(one.on_timer(one.due()).send);
  EXPECT_TRUE(is_nothing(one.on_send_failure(EADDRNOTAVAIL, start)));
  EXPECT_EQ(one.current_state(), state::rep_sent);
}

TEST(ib_12_6_8_rep, to_a_process_of_this_host_that_has_gone_is_rejected) {
  for (const bool at_once : {true, false}) {
    auto one = in(state::rep_sent, false);
    if (!at_once) {
      ASSERT_TRUE(one.on_timer(one.due()).send);
    }
    const auto step = one.on_send_failure(ECONNREFUSED, start);
    ASSERT_TRUE(step.notify);
    EXPECT_EQ(step.notify->event, protocol_event::rejected);
    EXPECT_EQ(step.notify->status, static_cast<int>(wire::reject_reason::invalid_id));
    EXPECT_EQ(step.peer, watch::stop);
    EXPECT_EQ(step.error, 0);
  }
}

// --- RTU -------------------------------------------------------------------------------------

TEST(ib_12_6_9_rtu, follows_a_rep_alone) {
  for (const auto& from : every_stage) {
    auto one = in(from.in, from.active);
    const bool possible = from.in == state::rep_received;
    const auto step = one.establish();
    EXPECT_EQ(step.error, possible ? 0 : EINVAL);
    EXPECT_EQ(step.send.has_value(), possible);
    EXPECT_EQ(one.current_state(), possible ? state::established : from.in);
  }
}

TEST(ib_12_6_9_rtu, that_was_lost_is_sent_again_for_each_rep) {
  auto one = in(state::established, true);
  for (int i = 0; i < 3; ++i) {
    const auto step = hear(one, cm_kind::rep);
    ASSERT_TRUE(step.send);
    EXPECT_EQ(step.send->kind, cm_kind::rtu);
    EXPECT_FALSE(step.notify);
  }
}

TEST(ib_12_6_9_rtu, that_was_lost_is_replaced_by_the_first_data) {
  for (const auto& from : every_stage) {
    auto one = in(from.in, from.active);
    const auto step = one.data_arrived();
    if (from.in == state::rep_sent) {
      ASSERT_TRUE(step.notify);
      EXPECT_EQ(step.notify->event, protocol_event::established);
      EXPECT_EQ(one.due(), engine::never);
      EXPECT_TRUE(is_nothing(hear(one, cm_kind::rtu)));  // told once
    } else {
      EXPECT_EQ(step.error, from.in == state::established ? EISCONN : EINVAL);
      EXPECT_EQ(one.current_state(), from.in);
    }
  }
}

TEST(ib_12_6_9_rtu, that_cannot_be_sent_is_told) {
  auto one = in(state::rep_received, true);
  static_cast<void>(one.establish());
  EXPECT_EQ(one.on_send_failure(ECONNREFUSED, start).error, ECONNREFUSED);
  EXPECT_EQ(one.current_state(), state::established);
}

// --- DREQ and DREP ---------------------------------------------------------------------------

TEST(ib_12_6_10_dreq, names_the_queue_pair_of_the_peer_and_fails_the_own) {
  auto one = in(state::established, true);
  const auto step = one.disconnect(start);
  EXPECT_TRUE(step.fail_queue_pair);
  ASSERT_TRUE(step.send);
  EXPECT_EQ(step.send->kind, cm_kind::dreq);
  EXPECT_EQ(step.send->qpn, 0x200U);
  EXPECT_EQ(*step.send, in(state::established, true).dreq());
}

TEST(ib_12_6_10_dreq, is_repeated_until_the_peer_is_taken_for_disconnected) {
  auto one = in(state::dreq_sent, false);
  int repetitions = 0;
  auto step = one.on_timer(one.due());
  for (; step.send; step = one.on_timer(one.due())) ++repetitions;
  EXPECT_EQ(repetitions, 15);
  ASSERT_TRUE(step.notify);
  EXPECT_EQ(step.notify->event, protocol_event::disconnected);
  EXPECT_EQ(step.notify->status, -ETIMEDOUT);
  EXPECT_EQ(one.current_state(), state::timewait);
}

TEST(ib_12_6_10_dreq, every_call_to_disconnect_fails_the_queue_pair) {
  for (const auto& from : every_stage) {
    auto one = in(from.in, from.active);
    const auto step = one.disconnect(start);
    EXPECT_TRUE(step.fail_queue_pair);
    EXPECT_EQ(step.error, from.in == state::idle ? EINVAL : 0);
    EXPECT_FALSE(step.notify);
  }
}

TEST(ib_12_6_10_dreq, of_both_ends_at_once_disconnects_each_once) {
  auto one = in(state::dreq_sent, true);
  EXPECT_TRUE(hear(one, cm_kind::dreq).notify);
  EXPECT_TRUE(is_nothing(hear(one, cm_kind::dreq)));
  EXPECT_TRUE(is_nothing(hear(one, cm_kind::drep)));
  EXPECT_EQ(one.due(), engine::never);
  // The user answers.
  const auto step = one.disconnect(start);
  ASSERT_TRUE(step.send);
  EXPECT_EQ(step.send->kind, cm_kind::drep);
  EXPECT_FALSE(step.notify);
  EXPECT_EQ(one.current_state(), state::timewait);
}

TEST(ib_12_6_10_dreq, that_cannot_be_sent_disconnects) {
  auto one = in(state::dreq_sent, true);
  auto step = one.on_send_failure(EADDRNOTAVAIL, start);
  ASSERT_TRUE(step.notify);
  EXPECT_EQ(step.notify->status, -EADDRNOTAVAIL);
  EXPECT_EQ(step.error, 0);
  EXPECT_EQ(one.current_state(), state::timewait);
  // A process of this host that has gone needs no farewell.
  one = in(state::dreq_sent, true);
  step = one.on_send_failure(ECONNREFUSED, start);
  ASSERT_TRUE(step.notify);
  EXPECT_EQ(step.notify->status, 0);
  EXPECT_EQ(one.current_state(), state::timewait);
}

TEST(ib_12_6_11_drep, carries_the_transaction_id_of_the_dreq) {
  auto dreq = from_peer(cm_kind::dreq);
  dreq.transaction = 99;
  for (const auto from : {state::established, state::timewait, state::closed}) {
    auto one = in(from, true);
    auto step = one.on_message(dreq, true, start);
    if (from == state::established) step = one.disconnect(start);
    ASSERT_TRUE(step.send);
    EXPECT_EQ(step.send->kind, cm_kind::drep);
    EXPECT_EQ(step.send->transaction, 99U);
  }
}

TEST(ib_12_9_timewait, lasts_as_long_as_the_local_ack_timeout_says_and_ends_once) {
  for (const auto& [exponent, lasts] :
       {std::pair{std::uint8_t{0}, 1ms}, std::pair{std::uint8_t{8}, 1ms},
        std::pair{std::uint8_t{19}, 2048ms}, std::pair{std::uint8_t{31}, 8388608ms}}) {
    connection one;
    auto req = peer_req();
    req.ack_timeout = exponent;
    one.receive_request(req, own_id, 0);
    static_cast<void>(one.accept(own_rep(), start));
    EXPECT_EQ(one.on_peer_gone(start).peer, watch::stop);
    ASSERT_EQ(one.current_state(), state::timewait);
    EXPECT_EQ(one.due(), start + lasts);
    EXPECT_TRUE(is_nothing(one.on_timer(start + lasts - 1ns)));
    const auto step = one.on_timer(start + lasts);
    ASSERT_TRUE(step.notify);
    EXPECT_EQ(step.notify->event, protocol_event::timewait_exit);
    EXPECT_EQ(one.due(), engine::never);
    EXPECT_TRUE(is_nothing(one.on_timer(start + 24h)));
  }
}

// --- beyond the specification ----------------------------------------------------------------

TEST(connection, ends_with_the_process_of_the_peer) {
  for (const auto& from : every_stage) {
    auto one = in(from.in, from.active);
    const auto step = one.on_peer_gone(start);
    switch (from.in) {
      case state::rep_received:
      case state::rep_sent:
      case state::established:
      case state::dreq_sent:
        ASSERT_TRUE(step.notify);
        EXPECT_EQ(step.notify->event, protocol_event::disconnected);
        EXPECT_TRUE(step.fail_queue_pair);
        EXPECT_EQ(one.current_state(), state::timewait);
        break;
      default:
        EXPECT_TRUE(is_nothing(step));
        EXPECT_EQ(one.current_state(), from.in);
    }
  }
}

TEST(connection, tells_its_peer_when_the_user_destroys_it) {
  for (const auto& from : every_stage) {
    auto one = in(from.in, from.active);
    const auto step = one.abandon();
    EXPECT_EQ(one.current_state(), state::closed);
    EXPECT_EQ(one.due(), engine::never);
    EXPECT_FALSE(step.notify);
    const auto sent = step.send ? std::optional(step.send->kind) : std::nullopt;
    switch (from.in) {
      case state::req_sent:
        ASSERT_EQ(sent, cm_kind::rej);
        EXPECT_TRUE(wire::withdraws_request(*step.send));
        EXPECT_EQ(wire::guid_in(*step.send), guid);
        EXPECT_EQ(step.send->service_id, own_req().service_id);
        EXPECT_EQ(step.send->reason, static_cast<int>(wire::reject_reason::timeout));
        break;
      case state::req_received:
      case state::rep_received:
      case state::rep_sent:
        ASSERT_EQ(sent, cm_kind::rej);
        EXPECT_EQ(step.send->reason, static_cast<int>(wire::reject_reason::consumer));
        EXPECT_EQ(step.send->answered,
                  from.in == state::req_received ? wire::cm_answered::req : wire::cm_answered::rep);
        break;
      case state::established:
        EXPECT_EQ(sent, cm_kind::dreq);
        break;
      case state::dreq_received:
        EXPECT_EQ(sent, cm_kind::drep);
        break;
      default:
        EXPECT_EQ(sent, std::nullopt);
    }
  }
}

}  // namespace
}  // namespace softverbs::cm
