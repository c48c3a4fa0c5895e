// The sending half, packet by packet. Tests bear the number of the clause that they are about.
#include <transport/requester.hpp>

#include <array>
#include <chrono>
#include <cstdint>
#include <vector>

#include <gtest/gtest.h>

#include "recorded_queue_pair.hpp"

namespace softverbs::transport {
namespace {

using namespace std::chrono_literals;
using wire::operation;
using psns = std::vector<std::uint32_t>;

constexpr std::uint32_t mtu = recorded_queue_pair::mtu;

send_work request(opcode op, std::uint64_t id) { return {.id = id, .op = op, .signaled = true}; }

TEST(requester, c9_7_1_a_message_is_cut_into_packets_of_consecutive_psns_across_the_wrap) {
  recorded_queue_pair qp(service::rc, 0xff'fffe);
  qp.post(request(opcode::send, 1), 3 * mtu - 1);
  const auto sent = qp.sent();
  ASSERT_EQ(sent.size(), 3U);
  EXPECT_EQ(sent[0].header.psn, 0xff'fffeU);
  EXPECT_EQ(sent[1].header.psn, 0xff'ffffU);
  EXPECT_EQ(sent[2].header.psn, 0U);
  EXPECT_EQ(sent[0].header.op, operation::send_first);
  EXPECT_EQ(sent[1].header.op, operation::send_middle);
  EXPECT_EQ(sent[2].header.op, operation::send_last);
  EXPECT_EQ(sent[2].payload.size(), mtu - 1);
  EXPECT_TRUE(sent[2].header.ack_request);
  qp.acknowledge(0);
  EXPECT_EQ(qp.sends_completed, (std::vector<completed_send>{{.id = 1}}));
}

TEST(requester, c9_7_5_1_one_acknowledgement_covers_everything_before_it) {
  recorded_queue_pair qp;
  for (std::uint64_t id = 1; id <= 3; ++id) qp.post(request(opcode::write, id), 8);
  qp.acknowledge(1);
  EXPECT_EQ(qp.sends_completed, (std::vector<completed_send>{{.id = 1}, {.id = 2}}));
  qp.acknowledge(1);  // once more: nothing new
  EXPECT_EQ(qp.sends_completed.size(), 2U);
  qp.acknowledge(2);
  EXPECT_EQ(qp.sends_completed.size(), 3U);
}

TEST(requester, c9_7_5_1_1_an_acknowledgement_of_what_was_never_sent_is_dropped) {
  recorded_queue_pair qp(service::rc, 100);
  qp.post(request(opcode::write, 1), 8);
  for (const std::uint32_t psn : {99U, 101U, 102U, 100U + (1U << 22)}) qp.acknowledge(psn);
  qp.refuse(102, wire::nak::remote_access);
  EXPECT_TRUE(qp.sends_completed.empty());
  EXPECT_EQ(qp.core.current(), state::rts);
}

TEST(requester, c9_7_5_2_a_sequence_error_makes_it_go_back) {
  recorded_queue_pair qp;
  qp.post(request(opcode::write, 1), 4 * mtu);
  static_cast<void>(qp.sent());
  qp.refuse(1, wire::nak::sequence);
  EXPECT_EQ(qp.sent_psns(), (psns{1, 2, 3}));
  qp.acknowledge(3);
  EXPECT_EQ(qp.sends_completed.size(), 1U);
}

TEST(requester, c9_7_5_2_without_progress_sequence_errors_are_retries) {
  recorded_queue_pair qp;
  qp.post(request(opcode::write, 1), 8);
  for (int i = 0; i < 2; ++i) qp.refuse(0, wire::nak::sequence);
  EXPECT_TRUE(qp.sends_completed.empty());
  qp.refuse(0, wire::nak::sequence);
  EXPECT_EQ(qp.sends_completed,
            (std::vector<completed_send>{{.id = 1, .result = status::retries_exceeded}}));
  EXPECT_EQ(qp.core.current(), state::error);
}

TEST(requester, c9_7_5_2_8_a_receiver_that_is_not_ready_is_left_alone_for_its_time) {
  recorded_queue_pair qp;
  qp.post(request(opcode::send, 1), 8);
  static_cast<void>(qp.sent());
  const auto then = qp.time;
  qp.acknowledge(0, wire::syndrome_rnr | 12);  // 0.64 ms
  EXPECT_TRUE(qp.sent().empty());
  ASSERT_TRUE(qp.wait());
  EXPECT_EQ(qp.time - then, 640us);
  EXPECT_EQ(qp.sent_psns(), (psns{0}));
}

TEST(requester, c9_7_5_2_8_its_patience_ends_unless_it_has_no_end) {
  recorded_queue_pair qp;
  recorded_queue_pair endless;
  endless.core.agreed.rnr_retry = 7;
  for (auto* const each : {&qp, &endless}) {
    each->post(request(opcode::send, 1), 8);
    for (int i = 0; i < 3; ++i) {
      each->acknowledge(0, wire::syndrome_rnr | 1);
      each->wait();
    }
  }
  EXPECT_EQ(qp.sends_completed,
            (std::vector<completed_send>{{.id = 1, .result = status::rnr_retries_exceeded}}));
  EXPECT_TRUE(endless.sends_completed.empty());
  endless.acknowledge(0);
  EXPECT_EQ(endless.sends_completed, (std::vector<completed_send>{{.id = 1}}));
}

TEST(requester, c9_7_5_2_each_refusal_has_its_status) {
  const std::array<std::pair<wire::nak, status>, 3> rules{
      {{wire::nak::invalid_request, status::remote_invalid_request},
       {wire::nak::remote_access, status::remote_access_error},
       {wire::nak::remote_operational, status::remote_operation_error}}};
  for (const auto& [code, expected] : rules) {
    recorded_queue_pair qp;
    for (std::uint64_t id = 1; id <= 3; ++id) qp.post(request(opcode::write, id), 8);
    qp.refuse(1, code);
    EXPECT_EQ(qp.sends_completed,
              (std::vector<completed_send>{
                  {.id = 1}, {.id = 2, .result = expected}, {.id = 3, .result = status::flushed}}));
    EXPECT_EQ(qp.core.current(), state::error);
  }
}

TEST(requester, c9_7_6_1_3_a_timeout_is_not_shorter_than_the_queue_pair_says) {
  recorded_queue_pair qp;
  const auto then = qp.time;
  qp.post(request(opcode::write, 1), 8);
  while (qp.sends_completed.empty()) ASSERT_TRUE(qp.wait());
  EXPECT_EQ(qp.sends_completed,
            (std::vector<completed_send>{{.id = 1, .result = status::retries_exceeded}}));
  // The first try and two retries, 4.096 µs · 2^14 each at least, four times that at most.
  EXPECT_GE(qp.time - then, 3 * 67ms);
  EXPECT_LE(qp.time - then, 3 * 4 * 68ms);
}

TEST(requester, a_probe_is_no_retry_and_goes_on_where_it_was) {
  recorded_queue_pair qp;
  qp.core.agreed.timeout = 31;
  qp.post(request(opcode::write, 1), 3 * mtu);
  static_cast<void>(qp.sent());
  for (int i = 0; i < 10; ++i) {
    ASSERT_TRUE(qp.wait());
    EXPECT_EQ(qp.sent_psns(), (psns{0}));  // the oldest, alone
  }
  qp.acknowledge(2);  // everything had arrived
  EXPECT_TRUE(qp.sent().empty());
  EXPECT_EQ(qp.sends_completed, (std::vector<completed_send>{{.id = 1}}));
}

TEST(requester, the_first_window_is_64_kib_and_opens_with_acknowledgements) {
  recorded_queue_pair qp;
  constexpr std::uint32_t bytes = 4096;
  for (std::uint64_t id = 1; id <= 32; ++id) qp.post(request(opcode::write, id), bytes);
  EXPECT_EQ(qp.sent().size() * mtu, 64U * 1024);
  qp.acknowledge(bytes / mtu * 8 - 1);
  EXPECT_GE(qp.sent().size() * mtu, 32U * 1024);
}

TEST(requester, c9_7_5_1_a_read_answers_for_what_came_before_it) {
  recorded_queue_pair qp;
  qp.post(request(opcode::write, 1), 8);
  qp.post(request(opcode::read, 2), 2 * mtu);
  EXPECT_EQ(qp.sent_psns(), (psns{0, 1}));
  const std::vector<std::byte> bytes(mtu, std::byte{7});
  qp.receive({.op = operation::read_response_first, .psn = 1}, bytes);
  EXPECT_EQ(qp.sends_completed, (std::vector<completed_send>{{.id = 1}}));
  qp.receive({.op = operation::read_response_last, .psn = 2}, bytes);
  EXPECT_EQ(qp.sends_completed.size(), 2U);
  EXPECT_EQ(qp.memory[std::size_t{2} * mtu - 1], std::byte{7});
  EXPECT_EQ(qp.memory[std::size_t{2} * mtu], std::byte{0});
}

TEST(requester, c9_7_5_1_a_lost_response_is_asked_for_again_from_there) {
  recorded_queue_pair qp;
  qp.post(request(opcode::read, 1), 3 * mtu);
  static_cast<void>(qp.sent());
  const std::vector<std::byte> bytes(mtu, std::byte{7});
  qp.receive({.op = operation::read_response_first, .psn = 0}, bytes);
  qp.receive({.op = operation::read_response_last, .psn = 2}, bytes);
  const auto again = qp.sent();
  ASSERT_EQ(again.size(), 1U);
  EXPECT_EQ(again[0].header.psn, 1U);
  EXPECT_EQ(again[0].header.op, operation::read_request);
  EXPECT_EQ(again[0].header.dma_length, 2 * mtu);
  EXPECT_EQ(again[0].header.remote_address, mtu);
}

TEST(requester, c9_7_5_1_a_response_of_the_wrong_length_fails) {
  recorded_queue_pair qp;
  qp.post(request(opcode::read, 1), 2 * mtu);
  const std::vector<std::byte> bytes(mtu - 1);
  qp.receive({.op = operation::read_response_first, .psn = 0}, bytes);
  EXPECT_EQ(qp.sends_completed,
            (std::vector<completed_send>{{.id = 1, .result = status::bad_response}}));
}

TEST(requester, c9_7_3_1_no_more_reads_and_atomics_than_the_peer_allows) {
  recorded_queue_pair qp;
  for (std::uint64_t id = 1; id <= 3; ++id) qp.post(request(opcode::fetch_add, id), 8);
  EXPECT_EQ(qp.sent_psns(), (psns{0, 1}));
  qp.receive({.op = operation::atomic_acknowledge, .psn = 0, .original = 5});
  EXPECT_EQ(qp.sent_psns(), (psns{2}));
}

TEST(requester, c10_8_3_3_a_fence_waits_for_reads) {
  recorded_queue_pair qp;
  qp.post(request(opcode::read, 1), 8);
  auto fenced = request(opcode::send, 2);
  fenced.fenced = true;
  qp.post(fenced, 8);
  EXPECT_EQ(qp.sent_psns(), (psns{0}));
  const std::vector<std::byte> bytes(8);
  qp.receive({.op = operation::read_response_only, .psn = 0}, bytes);
  EXPECT_EQ(qp.sent_psns(), (psns{1}));
}

TEST(requester, c10_3_1_7_a_drained_queue_begins_nothing_and_says_so) {
  recorded_queue_pair qp;
  qp.post(request(opcode::write, 1), 8);
  qp.core.enter(state::sqd);
  qp.core.tell_when_drained();
  qp.post(request(opcode::write, 2), 8);
  EXPECT_EQ(qp.sent_psns(), (psns{0}));
  EXPECT_TRUE(qp.events.empty());
  qp.acknowledge(0);
  EXPECT_EQ(qp.events, (std::vector{event::send_queue_drained}));
  qp.core.enter(state::rts);
  qp.pump();
  EXPECT_EQ(qp.sent_psns(), (psns{1}));
}

TEST(requester, c11_6_3_2_a_lost_completion_fails_the_queue_pair_and_nothing_is_told_twice) {
  recorded_queue_pair qp;
  for (std::uint64_t id = 1; id <= 4; ++id) qp.post(request(opcode::write, id), 8);
  qp.completions_left = 1;
  qp.acknowledge(3);
  EXPECT_EQ(qp.sends_completed, (std::vector<completed_send>{{.id = 1}}));
  EXPECT_EQ(qp.core.current(), state::error);
  EXPECT_TRUE(qp.core.sends.is_empty());
}

TEST(requester, memory_that_has_gone_fails_its_request_when_those_before_it_are_complete) {
  recorded_queue_pair qp;
  qp.queue(request(opcode::write, 1), 8);
  auto bad = request(opcode::write, 2);
  qp.queue(bad, 8);
  qp.core.sends.elements(qp.core.sends.head() - 1)[0].key ^= 0x100;
  qp.pump();
  EXPECT_EQ(qp.sent_psns(), (psns{0}));
  EXPECT_TRUE(qp.sends_completed.empty());
  qp.acknowledge(0);
  EXPECT_EQ(qp.sends_completed,
            (std::vector<completed_send>{{.id = 1},
                                         {.id = 2, .result = status::local_protection_error}}));
}

TEST(requester, c9_8_3_a_datagram_that_does_not_fit_stops_the_send_queue_alone) {
  recorded_queue_pair qp(service::ud);
  qp.queue(request(opcode::send, 1), mtu);
  qp.queue(request(opcode::send, 2), mtu + 1);
  qp.queue(request(opcode::send, 3), 8);
  qp.pump();
  EXPECT_EQ(qp.sends_completed,
            (std::vector<completed_send>{{.id = 1},
                                         {.id = 2, .result = status::local_length_error},
                                         {.id = 3, .result = status::flushed}}));
  EXPECT_EQ(qp.core.current(), state::sqe);
}

}  // namespace
}  // namespace softverbs::transport
