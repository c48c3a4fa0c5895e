// The receiving half, packet by packet. Tests bear the number of the clause that they are about.
#include <transport/responder.hpp>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <vector>

#include <gtest/gtest.h>

#include "recorded_queue_pair.hpp"

namespace softverbs::transport {
namespace {

using wire::operation;

constexpr auto mtu = recorded_queue_pair::mtu;
constexpr std::uint8_t sequence_error = wire::syndrome_nak;
constexpr std::uint8_t invalid_request = wire::syndrome_nak | 1;
constexpr std::uint8_t access_error = wire::syndrome_nak | 2;

std::vector<std::byte> filled(std::size_t bytes, unsigned value = 7) {
  return std::vector<std::byte>(bytes, static_cast<std::byte>(value));
}

/// The one answer that has left since the last look.
sent_packet answer_of(recorded_queue_pair& qp) {
  auto sent = qp.sent();
  EXPECT_EQ(sent.size(), 1U);
  return sent.empty() ? sent_packet{} : sent.front();
}

std::uint64_t cell(const recorded_queue_pair& qp) {
  std::uint64_t value = 0;
  std::memcpy(&value, qp.memory.data(), sizeof value);
  return value;
}

TEST(responder, c9_7_4_a_send_fills_the_oldest_receive_and_is_acknowledged_across_the_wrap) {
  recorded_queue_pair qp(service::rc, 0xff'ffff);
  qp.post_receive(1, 1024);
  qp.receive(qp.request(operation::send_first, 0xff'ffff), filled(mtu));
  qp.receive(qp.request(operation::send_last_immediate, 0), filled(5));
  const auto answers = qp.sent();
  ASSERT_EQ(answers.size(), 2U);
  EXPECT_EQ(answers[1].header.psn, 0U);
  EXPECT_EQ(answers[1].header.msn, 1U);
  EXPECT_EQ(qp.receives_completed, (std::vector<completed_receive>{{.id = 1, .bytes = mtu + 5}}));
  EXPECT_EQ(qp.memory[mtu + 4], std::byte{7});
  EXPECT_EQ(qp.memory[mtu + 5], std::byte{0});
}

TEST(responder, c9_7_5_2_a_gap_is_reported_once) {
  recorded_queue_pair qp;
  qp.receive(qp.request(operation::write_only, 2));
  auto refusal = answer_of(qp);
  EXPECT_EQ(refusal.header.syndrome, sequence_error);
  EXPECT_EQ(refusal.header.psn, 0U);
  qp.receive(qp.request(operation::write_only, 3));
  EXPECT_TRUE(qp.sent().empty());
  qp.receive(qp.request(operation::write_only, 0));  // the expected one ends the silence
  EXPECT_EQ(answer_of(qp).header.syndrome, wire::syndrome_ack);
  qp.receive(qp.request(operation::write_only, 3));
  EXPECT_EQ(answer_of(qp).header.psn, 1U);
}

TEST(responder, c9_7_5_1_2_a_repeated_send_is_acknowledged_again_and_not_received_again) {
  recorded_queue_pair qp;
  qp.post_receive(1, 64);
  qp.post_receive(2, 64);
  const auto send = qp.request(operation::send_only, 0);
  qp.receive(send, filled(8));
  static_cast<void>(qp.sent());
  qp.receive(send, filled(8));
  EXPECT_EQ(answer_of(qp).header.psn, 0U);
  EXPECT_EQ(qp.receives_completed.size(), 1U);
}

TEST(responder, c9_7_5_1_2_a_repeated_atomic_is_answered_from_memory) {
  recorded_queue_pair qp;
  auto add = qp.request(operation::fetch_add, 0);
  add.swap_or_add = 5;
  qp.receive(add);
  EXPECT_EQ(answer_of(qp).header.original, 0U);
  EXPECT_EQ(cell(qp), 5U);
  qp.receive(add);
  EXPECT_EQ(answer_of(qp).header.original, 0U);
  EXPECT_EQ(cell(qp), 5U);
}

TEST(responder, c9_7_5_1_2_a_repeated_read_is_carried_out_again_from_where_it_is_asked_for) {
  recorded_queue_pair qp;
  auto read = qp.request(operation::read_request, 0);
  read.dma_length = 3 * mtu;
  qp.receive(read);
  EXPECT_EQ(qp.sent().size(), 3U);
  qp.memory[mtu] = std::byte{9};
  auto rest = qp.request(operation::read_request, 1);
  rest.remote_address = mtu;
  rest.dma_length = 2 * mtu;
  qp.receive(rest);
  const auto again = qp.sent();
  ASSERT_EQ(again.size(), 2U);
  EXPECT_EQ(again[0].header.op, operation::read_response_first);
  EXPECT_EQ(again[0].header.psn, 1U);
  EXPECT_EQ(again[0].payload[0], std::byte{9});
}

TEST(responder, c9_7_5_1_2_what_is_asked_for_again_cannot_reach_beyond_what_was_granted) {
  recorded_queue_pair qp;
  auto read = qp.request(operation::read_request, 0);
  read.dma_length = mtu;
  qp.receive(read);
  static_cast<void>(qp.sent());
  read.dma_length = 2 * mtu;
  qp.receive(read);
  read.dma_length = mtu;
  read.rkey ^= 0x100;
  qp.receive(read);
  EXPECT_TRUE(qp.sent().empty());
}

TEST(responder, c9_7_5_2_8_without_a_receive_the_peer_waits_and_loses_nothing) {
  recorded_queue_pair qp;
  const auto send = qp.request(operation::send_only, 0);
  qp.receive(send, filled(8));
  EXPECT_EQ(answer_of(qp).header.syndrome, wire::syndrome_rnr | 12);
  qp.post_receive(1, 64);
  qp.receive(send, filled(8));
  EXPECT_EQ(answer_of(qp).header.syndrome, wire::syndrome_ack);
  EXPECT_EQ(qp.receives_completed, (std::vector<completed_receive>{{.id = 1, .bytes = 8}}));
}

TEST(responder, c9_7_4_1_packets_out_of_their_place_in_a_message_are_invalid) {
  const std::vector<std::vector<std::pair<operation, std::size_t>>> wrong{
      {{operation::send_middle, mtu}},
      {{operation::write_last, 8}},
      {{operation::send_first, mtu - 1}},
      {{operation::send_only, mtu + 1}},
      {{operation::send_first, mtu}, {operation::send_only, 8}},
      {{operation::send_first, mtu}, {operation::write_middle, mtu}},
      {{operation::send_first, mtu}, {operation::send_last, 0}},
      {{operation::send_first, mtu}, {operation::read_request, 0}}};
  for (const auto& packets : wrong) {
    recorded_queue_pair qp;
    qp.post_receive(1, 4096);
    for (std::uint32_t psn = 0; psn < packets.size(); ++psn)
      qp.receive(qp.request(packets[psn].first, psn), filled(packets[psn].second));
    const auto answers = qp.sent();
    ASSERT_FALSE(answers.empty());
    EXPECT_EQ(answers.back().header.syndrome, invalid_request);
    EXPECT_EQ(qp.core.current(), state::error);
  }
}

TEST(responder, c9_7_4_1_more_reads_than_agreed_are_invalid) {
  recorded_queue_pair qp;
  auto read = qp.request(operation::read_request, 0);
  for (std::uint32_t psn = 0; psn < 3; ++psn) {
    read.psn = psn;
    const wire::packet packet{.header = read};
    qp.core.receive({.packet = packet, .source = {}, .destination = {}});  // without answers yet
  }
  EXPECT_EQ(qp.core.current(), state::error);
  EXPECT_EQ(qp.sent().back().header.syndrome, invalid_request);
  EXPECT_EQ(qp.events.back(), event::request_error);
}

TEST(responder, c9_7_4_1_5_every_right_is_checked) {
  for (const auto op : {operation::write_only, operation::read_request, operation::fetch_add}) {
    for (const bool by_key : {true, false}) {
      recorded_queue_pair qp;
      auto request = qp.request(op, 0);
      request.dma_length = 8;
      if (by_key) request.rkey ^= 0x100;
      if (!by_key) qp.core.agreed.rights = access::local_write;
      qp.receive(request, op == operation::write_only ? filled(8) : filled(0));
      EXPECT_EQ(answer_of(qp).header.syndrome, access_error);
      EXPECT_EQ(qp.events, (std::vector{event::first_request, event::access_error}));
      EXPECT_EQ(cell(qp), 0U);
    }
  }
}

TEST(responder, c9_7_4_2_a_receive_that_is_too_small_fails_both_sides) {
  recorded_queue_pair qp;
  qp.post_receive(1, 4);
  qp.post_receive(2, 64);
  qp.receive(qp.request(operation::send_only, 0), filled(8));
  EXPECT_EQ(answer_of(qp).header.syndrome, invalid_request);
  EXPECT_EQ(qp.receives_completed,
            (std::vector<completed_receive>{{.id = 1, .result = status::local_length_error},
                                            {.id = 2, .result = status::flushed}}));
}

TEST(responder, c9_7_4_1_a_write_with_immediate_writes_nothing_before_there_is_a_receive) {
  recorded_queue_pair qp;
  auto write = qp.request(operation::write_only_immediate, 0);
  write.dma_length = 8;
  write.immediate = 42;
  qp.receive(write, filled(8));
  EXPECT_EQ(answer_of(qp).header.syndrome, wire::syndrome_rnr | 12);
  EXPECT_EQ(cell(qp), 0U);
  qp.post_receive(1, 0);
  qp.receive(write, filled(8));
  EXPECT_EQ(qp.receives_completed,
            (std::vector<completed_receive>{{.id = 1, .bytes = 8, .immediate = 42}}));
  EXPECT_NE(cell(qp), 0U);
}

TEST(responder, what_has_been_received_is_acknowledged_before_the_queue_pair_fails) {
  recorded_queue_pair qp;
  qp.post_receive(1, 64);
  const auto bytes = filled(8);
  const wire::packet packet{.header = qp.request(operation::send_only, 0), .payload = bytes};
  qp.core.receive({.packet = packet, .source = {}, .destination = {}});
  qp.core.fail();
  EXPECT_EQ(answer_of(qp).header.syndrome, wire::syndrome_ack);
}

TEST(responder, c9_8_2_2_1_a_gap_damages_one_unreliable_message_and_its_receive_serves_the_next) {
  recorded_queue_pair qp(service::uc);
  qp.post_receive(1, 4096);
  qp.receive(qp.request(operation::send_first, 0), filled(mtu));
  qp.receive(qp.request(operation::send_last, 2), filled(8));  // 1 is lost
  EXPECT_TRUE(qp.receives_completed.empty());
  qp.receive(qp.request(operation::send_only, 3), filled(8));
  EXPECT_EQ(qp.receives_completed, (std::vector<completed_receive>{{.id = 1, .bytes = 8}}));
  EXPECT_EQ(qp.core.current(), state::rts);
}

TEST(responder, c10_2_5_a_datagram_with_another_queue_key_is_dropped_silently) {
  recorded_queue_pair qp(service::ud);
  qp.post_receive(1, 4096);
  auto datagram = qp.request(operation::send_only, 0);
  datagram.qkey = 0x43;
  qp.receive(datagram, filled(8));
  EXPECT_TRUE(qp.receives_completed.empty());
  datagram.qkey = 0x42;
  qp.receive(datagram, filled(8));
  EXPECT_EQ(qp.receives_completed, (std::vector<completed_receive>{{.id = 1, .bytes = 48}}));
}

}  // namespace
}  // namespace softverbs::transport
