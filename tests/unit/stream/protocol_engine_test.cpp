#include <rdmaxx/stream/protocol_engine.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <span>
#include <sstream>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "unit/stream/engine_pipe.hpp"
#include "unit/stream/engine_texts.hpp"

using namespace rdmaxx;
using namespace rdmaxx::stream_protocol;
using namespace rdmaxx_test;
using testing::HasSubstr;

namespace {

constexpr receive_window small_window{.buffers = 8, .buffer_bytes = 64};
constexpr std::size_t payload = 64 - frame_header_bytes;

/// Two joined engines with the smallest windows and slots. No test may end with a frame that found
/// no receive buffer.
class protocol_engine_test : public testing::Test {
 protected:
  void TearDown() override {
    EXPECT_FALSE(a.receiver_not_ready || b.receiver_not_ready);
    EXPECT_FALSE(a.too_long || b.too_long);
  }

  engine_side a{terms_of(small_window, small_window), send_ring{}};
  engine_side b{terms_of(small_window, small_window), send_ring{}};
};

}  // namespace

// --- bytes ---------------------------------------------------------------------------------------

TEST_F(protocol_engine_test, what_one_side_writes_the_other_one_reads) {
  write_all(a.engine, "hello");
  EXPECT_FALSE(b.engine.receiving().can_read());
  pump(a, b);

  EXPECT_TRUE(b.engine.receiving().can_read());
  EXPECT_EQ(b.engine.receiving().available(), 5U);
  EXPECT_EQ(read_all(b.engine), "hello");
  EXPECT_FALSE(b.engine.receiving().at_end());
  EXPECT_TRUE(b.engine.receiving().check().has_value());
}

TEST_F(protocol_engine_test, received_bytes_can_be_read_in_place) {
  write_all(a.engine, pattern(payload + 10));
  pump(a, b);

  EXPECT_EQ(b.engine.receiving().readable().size(), payload);
  b.engine.receiving().consume(1);
  EXPECT_EQ(b.engine.receiving().readable().size(), payload - 1);
  EXPECT_EQ(b.engine.receiving().readable().front(), std::byte{'b'});
  EXPECT_FALSE(b.engine.receiving().next_to_post().has_value()) << "the slot is still being read";
  b.engine.receiving().consume(payload - 1);
  EXPECT_TRUE(b.post_receive());
  EXPECT_EQ(b.engine.receiving().readable().size(), 10U);
}

TEST_F(protocol_engine_test, a_read_and_a_consume_go_across_slots) {
  const auto text = pattern(3 * payload);
  write_all(a.engine, text);
  pump(a, b);

  std::string read(2 * payload + 5, ' ');
  EXPECT_EQ(b.engine.receiving().read(std::as_writable_bytes(std::span(read))), read.size());
  EXPECT_EQ(read, text.substr(0, read.size()));
  b.engine.receiving().consume(payload - 5);
  EXPECT_EQ(b.engine.receiving().available(), 0U);
  EXPECT_TRUE(b.engine.receiving().readable().empty());
  b.engine.receiving().consume(1);
  EXPECT_EQ(b.engine.statistics().bytes_read, text.size());
}

TEST_F(protocol_engine_test, a_write_takes_what_there_is_room_for) {
  const auto text = pattern(5 * payload);

  EXPECT_EQ(a.engine.sending().write(bytes_of(text)), 4 * payload);
  EXPECT_FALSE(a.engine.sending().can_write());
  EXPECT_EQ(a.engine.sending().write(bytes_of("x")), 0U);
  EXPECT_TRUE(a.engine.sending().check().has_value()) << "it only has to wait";

  pump(a, b);
  EXPECT_TRUE(a.engine.sending().can_write());
}

TEST_F(protocol_engine_test, long_texts_of_both_directions_arrive_as_they_were) {
  const auto text = pattern(100'000);
  std::string at_a;
  std::string at_b;
  std::size_t from_a = 0;
  std::size_t from_b = 0;
  while (at_a.size() != text.size() || at_b.size() != text.size()) {
    const auto before = at_a.size() + at_b.size();
    from_a += a.engine.sending().write(bytes_of(text).subspan(from_a));
    from_b += b.engine.sending().write(bytes_of(text).subspan(from_b));
    pump(a, b);
    at_a += read_all(a.engine);
    at_b += read_all(b.engine);
    ASSERT_LT(before, at_a.size() + at_b.size());
  }
  EXPECT_EQ(at_a, text);
  EXPECT_EQ(at_b, text);
}

TEST(protocol_engine, sequence_and_grants_may_wrap_around) {
  const auto almost = std::numeric_limits<std::uint32_t>::max() - 5;
  engine_side a(terms_of(small_window, small_window, almost, almost - 3), {});
  engine_side b(terms_of(small_window, small_window, almost - 3, almost), {});
  const auto text = pattern(40 * payload);
  std::size_t written = 0;
  std::string read;
  while (read.size() != text.size()) {
    const auto before = read.size();
    written += a.engine.sending().write(bytes_of(text).subspan(written));
    static_cast<void>(b.engine.sending().write(bytes_of("answer")));
    pump(a, b);
    read += read_all(b.engine);
    read_all(a.engine);
    ASSERT_LT(before, read.size());
  }
  EXPECT_EQ(read, text);
  EXPECT_FALSE(a.receiver_not_ready || b.receiver_not_ready);
  EXPECT_FALSE(a.engine.failure() || b.engine.failure());
}

TEST(protocol_engine, frames_fit_the_smaller_of_send_slot_and_peers_buffer) {
  const receive_window large{.buffers = 8, .buffer_bytes = 256};
  engine_side a(terms_of(small_window, large), {.slots = 2, .slot_bytes = 128});
  engine_side b(terms_of(large, small_window), {.slots = 2, .slot_bytes = 128});
  EXPECT_EQ(a.engine.sending().write(bytes_of(pattern(1000))), 2 * (128 - frame_header_bytes));
  EXPECT_EQ(b.engine.sending().write(bytes_of(pattern(1000))), 2 * payload);
  pump(a, b);
  EXPECT_EQ(b.engine.receiving().readable().size(), 128 - frame_header_bytes);
  EXPECT_EQ(a.engine.receiving().readable().size(), payload);
  EXPECT_FALSE(a.too_long || b.too_long);
}

// --- coalescing ----------------------------------------------------------------------------------

TEST_F(protocol_engine_test, a_first_small_write_goes_at_once) {
  write_all(a.engine, "a");
  EXPECT_TRUE(a.send());
}

TEST_F(protocol_engine_test, small_writes_behind_it_wait_and_share_a_frame) {
  write_all(a.engine, "a");
  EXPECT_TRUE(a.send());
  write_all(a.engine, "b");
  write_all(a.engine, "c");
  EXPECT_FALSE(a.send());
  EXPECT_TRUE(a.deliver_to(b) && a.complete_send());

  EXPECT_TRUE(a.send());
  EXPECT_FALSE(a.send());
  a.deliver_to(b);
  EXPECT_EQ(read_all(b.engine), "abc");
  EXPECT_EQ(a.engine.statistics().frames_sent, 2U);
  EXPECT_EQ(a.engine.statistics().coalesced_writes, 1U);
}

TEST_F(protocol_engine_test, a_full_frame_does_not_wait) {
  write_all(a.engine, "a");
  EXPECT_TRUE(a.send());
  write_all(a.engine, pattern(payload));
  EXPECT_TRUE(a.send());
}

TEST_F(protocol_engine_test, the_end_of_a_large_write_does_not_wait_for_its_beginning) {
  write_all(a.engine, pattern(payload + 1));
  EXPECT_TRUE(a.send());
  EXPECT_TRUE(a.send());
  write_all(a.engine, "b");
  EXPECT_FALSE(a.send());
  EXPECT_TRUE(a.deliver_to(b) && a.complete_send());
  EXPECT_FALSE(a.send());
  EXPECT_TRUE(a.deliver_to(b) && a.complete_send());
  EXPECT_TRUE(a.send());
}

TEST_F(protocol_engine_test, a_flush_lets_go_what_was_written_and_nothing_later) {
  write_all(a.engine, "a");
  EXPECT_TRUE(a.send());
  a.engine.sending().flush();  // nothing is there to flush
  write_all(a.engine, "b");
  EXPECT_FALSE(a.send());
  a.engine.sending().flush();
  EXPECT_TRUE(a.send());
  write_all(a.engine, "c");
  EXPECT_FALSE(a.send());
}

TEST_F(protocol_engine_test, a_grant_that_is_due_takes_waiting_bytes_with_it) {
  write_all(b.engine, "b");
  EXPECT_TRUE(b.send());
  write_all(b.engine, "c");
  EXPECT_FALSE(b.send());
  for (int i = 0; i < 4; ++i) {
    write_all(a.engine, pattern(payload));
    while (a.send() || a.deliver_to(b) || a.complete_send()) {
    }
  }
  read_all(b.engine);
  while (b.post_receive()) {
  }

  EXPECT_TRUE(b.send());
  EXPECT_FALSE(b.send());
  EXPECT_EQ(b.engine.statistics().credit_frames_sent, 0U);
}

// --- in place ------------------------------------------------------------------------------------

TEST_F(protocol_engine_test, memory_in_place_keeps_its_order_among_copied_bytes) {
  const auto large = pattern(2 * payload);
  write_all(a.engine, "<");
  EXPECT_EQ(a.engine.sending().write_in_place(bytes_of(large), 77), payload);
  write_all(a.engine, ">");
  pump(a, b);

  EXPECT_EQ(read_all(b.engine), "<" + large.substr(0, payload) + ">");
  EXPECT_EQ(a.engine.statistics().in_place_frames_sent, 1U);
}

TEST_F(protocol_engine_test, memory_in_place_is_handed_out_with_its_tag_and_never_copied) {
  const std::string text = "registered";
  EXPECT_EQ(a.engine.sending().write_in_place(bytes_of(text), 77), text.size());

  const auto frame = a.engine.next_send();

  ASSERT_TRUE(frame.has_value());
  EXPECT_EQ(frame->bytes.size(), frame_header_bytes);
  EXPECT_EQ(frame->in_place.data(), bytes_of(text).data());
  EXPECT_EQ(frame->tag, 77U);
  EXPECT_EQ(header_of(*frame).length, text.size());
  EXPECT_EQ(describe(*frame), "frame 0: 16 bytes and 10 in place");
}

TEST_F(protocol_engine_test, memory_in_place_is_released_when_its_send_has_completed) {
  const std::string text = "registered";
  write_all(a.engine, "copied");
  EXPECT_EQ(a.engine.sending().write_in_place(bytes_of(text), 0), text.size());
  EXPECT_EQ(a.engine.sending().written_position(), 16U);
  EXPECT_EQ(a.engine.sending().released_position(), 0U);
  EXPECT_TRUE(a.send() && a.send() && a.deliver_to(b) && a.deliver_to(b));

  EXPECT_TRUE(a.complete_send());
  EXPECT_EQ(a.engine.sending().released_position(), 6U);
  EXPECT_TRUE(a.complete_send());
  EXPECT_EQ(a.engine.sending().released_position(), 16U);
}

TEST_F(protocol_engine_test, nothing_in_place_and_a_full_ring_take_nothing) {
  EXPECT_EQ(a.engine.sending().write_in_place({}, 0), 0U);
  EXPECT_TRUE(a.engine.sending().can_write_in_place());
  write_all(a.engine, pattern(4 * payload - 1));
  EXPECT_FALSE(a.engine.sending().can_write_in_place());
  EXPECT_EQ(a.engine.sending().write_in_place(bytes_of("x"), 0), 0U);
  EXPECT_TRUE(a.engine.sending().can_write()) << "the last slot has room for a copy";
  a.engine.abort();
  EXPECT_TRUE(a.engine.sending().can_write_in_place()) << "to learn that it fails";
}

// --- completions ---------------------------------------------------------------------------------

TEST_F(protocol_engine_test, one_completion_releases_a_whole_batch) {
  write_all(a.engine, pattern(3 * payload));
  while (a.send() || a.deliver_to(b)) {
  }
  EXPECT_EQ(a.engine.sending().in_flight(), 3U);

  EXPECT_TRUE(a.complete_sends());

  EXPECT_EQ(a.engine.sending().in_flight(), 0U);
  EXPECT_EQ(a.engine.sending().released_position(), 3 * payload);
}

TEST_F(protocol_engine_test, completions_of_frames_that_are_not_under_way_are_ignored) {
  a.engine.sending().sent_up_to(0);
  a.engine.sending().sent_up_to(~0U);
  write_all(a.engine, pattern(payload));
  EXPECT_TRUE(a.send());
  a.engine.sending().sent_up_to(1);
  a.engine.sending().sent_up_to(~0U);
  EXPECT_EQ(a.engine.sending().in_flight(), 1U);
  a.engine.sending().sent_up_to(0);
  EXPECT_EQ(a.engine.sending().in_flight(), 0U);
}

// --- credits -------------------------------------------------------------------------------------

TEST_F(protocol_engine_test, a_writer_stops_without_credits_and_goes_on_when_the_peer_reads) {
  std::size_t written = 0;
  while (const auto count = a.engine.sending().write(bytes_of(pattern(payload)))) {
    written += count;
    pump(a, b);
  }
  EXPECT_EQ(a.engine.sending().credits(), 0U);
  EXPECT_TRUE(a.engine.sending().waits_for_credits());
  EXPECT_EQ(b.engine.receiving().available(), small_window.credits() * payload);
  EXPECT_EQ(a.engine.statistics().credit_stalls, 1U);
  EXPECT_FALSE(a.engine.sending().can_write());
  EXPECT_TRUE(a.engine.sending().check().has_value());

  std::size_t read = 0;
  while (read != written) {
    const auto count = read_all(b.engine).size();
    ASSERT_NE(count, 0U) << "stuck after " << read;
    read += count;
    pump(a, b);
  }
  EXPECT_TRUE(a.engine.sending().can_write());
}

TEST_F(protocol_engine_test, both_may_write_without_reading_and_then_read_everything) {
  std::size_t at_a = 0;
  std::size_t at_b = 0;
  for (bool moved = true; moved;) {
    const auto from_a = a.engine.sending().write(bytes_of(pattern(1000)));
    const auto from_b = b.engine.sending().write(bytes_of(pattern(1000)));
    at_b += from_a;
    at_a += from_b;
    moved = from_a + from_b != 0;
    pump(a, b);
  }
  EXPECT_FALSE(a.engine.failure() || b.engine.failure());
  EXPECT_FALSE(a.engine.sending().can_write() || b.engine.sending().can_write());

  while (at_a + at_b != 0) {
    const auto here = read_all(a.engine).size();
    const auto there = read_all(b.engine).size();
    ASSERT_NE(here + there, 0U);
    at_a -= here;
    at_b -= there;
    pump(a, b);
  }
}

TEST_F(protocol_engine_test, one_direction_lives_on_explicit_credits_one_for_half_the_buffers) {
  for (int i = 0; i < 1000; ++i) {
    write_all(a.engine, pattern(payload));
    pump(a, b);
    EXPECT_EQ(read_all(b.engine).size(), payload);
  }
  EXPECT_EQ(b.engine.statistics().frames_sent, b.engine.statistics().credit_frames_sent);
  EXPECT_EQ(b.engine.statistics().credit_frames_sent, 333U);
  EXPECT_EQ(a.engine.statistics().credit_frames_received, 333U);
  EXPECT_EQ(a.engine.statistics().credit_frames_sent, 0U);
}

TEST_F(protocol_engine_test, a_ping_pong_needs_no_credit_frames) {
  for (int i = 0; i < 100; ++i) {
    for (auto* side : {&a, &b}) {
      write_all(side->engine, "ping");
      pump(a, b);
      EXPECT_EQ(read_all((side == &a ? b : a).engine), "ping");
    }
  }
  EXPECT_EQ(a.engine.statistics().credit_frames_sent + b.engine.statistics().credit_frames_sent,
            0U);
}

TEST_F(protocol_engine_test, a_buffer_is_granted_only_when_it_has_been_posted) {
  for (int i = 0; i < 4; ++i) {
    write_all(a.engine, pattern(payload));
    while (a.send() || a.deliver_to(b) || a.complete_send()) {
    }
  }
  read_all(b.engine);
  EXPECT_FALSE(b.send());
  std::vector<std::size_t> slots;
  while (const auto slot = b.engine.receiving().next_to_post()) slots.push_back(*slot);
  EXPECT_EQ(slots.size(), 4U);
  EXPECT_FALSE(b.engine.next_send().has_value());
  for (const auto slot : slots) b.engine.receiving().posted(slot);
  b.engine.receiving().posted(slots.front());  // once more: ignored
  b.engine.receiving().posted(1000);

  const auto frame = b.engine.next_send();

  ASSERT_TRUE(frame.has_value());
  EXPECT_EQ(header_of(*frame), (frame_header{.kind = frame_kind::credit, .granted = 6 + 4}));
}

TEST_F(protocol_engine_test, a_control_frame_is_acknowledged_by_the_very_next_frame) {
  b.engine.receiving().shutdown();
  EXPECT_TRUE(b.send() && b.deliver_to(a));

  EXPECT_FALSE(a.send()) << "the stop's buffer has to be posted first";
  EXPECT_TRUE(a.post_receive());
  const auto frame = a.engine.next_send();

  ASSERT_TRUE(frame.has_value());
  EXPECT_EQ(header_of(*frame), (frame_header{.fin = true, .acknowledged = 1, .granted = 6}));
}

// --- the end of the stream -----------------------------------------------------------------------

TEST_F(protocol_engine_test, after_shutdown_write_the_peer_reads_the_end_behind_the_data) {
  write_all(a.engine, "last");
  a.engine.sending().shutdown();
  EXPECT_TRUE(a.engine.sending().can_write()) << "to learn that it fails";
  EXPECT_EQ(a.engine.sending().write(bytes_of("x")), 0U);
  EXPECT_EQ(a.engine.sending().check().error(), std::errc::broken_pipe);
  pump(a, b);

  EXPECT_FALSE(b.engine.receiving().at_end());
  EXPECT_EQ(read_all(b.engine), "last");
  EXPECT_TRUE(b.engine.receiving().at_end() && b.engine.receiving().can_read());
  EXPECT_TRUE(b.engine.receiving().check().has_value());
  EXPECT_EQ(a.engine.statistics().frames_sent, 1U) << "fin travels with the data";
  EXPECT_FALSE(a.engine.wants_disconnect() || b.engine.wants_disconnect());
}

TEST_F(protocol_engine_test, a_half_closed_stream_still_carries_the_other_direction) {
  a.engine.sending().shutdown();
  pump(a, b);
  EXPECT_TRUE(b.engine.receiving().at_end());
  for (int i = 0; i < 100; ++i) {
    write_all(b.engine, pattern(payload));
    pump(a, b);
    EXPECT_EQ(read_all(a.engine).size(), payload);
  }
  b.engine.sending().shutdown();
  pump(a, b);

  EXPECT_TRUE(a.engine.receiving().at_end());
  EXPECT_TRUE(a.engine.wants_disconnect() && b.engine.wants_disconnect());
}

TEST_F(protocol_engine_test, both_may_end_at_once_or_in_either_order) {
  for (const int order : {0, 1, 2}) {
    engine_side x(terms_of(small_window, small_window), {});
    engine_side y(terms_of(small_window, small_window), {});
    write_all(x.engine, "x");
    write_all(y.engine, "y");
    if (order != 1) x.engine.sending().shutdown();
    if (order == 0) pump(x, y);
    y.engine.sending().shutdown();
    if (order == 1) pump(x, y);
    x.engine.sending().shutdown();
    pump(x, y);
    x.engine.connection_lost();
    y.engine.connection_lost();

    EXPECT_EQ(read_all(x.engine), "y");
    EXPECT_EQ(read_all(y.engine), "x");
    EXPECT_TRUE(x.engine.receiving().at_end() && y.engine.receiving().at_end());
    EXPECT_TRUE(x.engine.wants_disconnect() && y.engine.wants_disconnect());
    EXPECT_FALSE(x.engine.failure() || y.engine.failure());
  }
}

TEST_F(protocol_engine_test, the_connection_may_end_only_when_the_fin_has_arrived) {
  b.engine.sending().shutdown();
  pump(a, b);
  write_all(a.engine, pattern(payload));
  EXPECT_TRUE(a.send());
  a.engine.sending().shutdown();
  EXPECT_TRUE(a.send());
  EXPECT_TRUE(a.deliver_to(b) && a.complete_send());
  EXPECT_FALSE(a.engine.wants_disconnect()) << "only the frame before it has arrived";
  EXPECT_TRUE(a.deliver_to(b) && a.complete_send());
  EXPECT_TRUE(a.engine.wants_disconnect());
}

TEST_F(protocol_engine_test, a_fin_waits_like_data_for_a_peer_that_does_not_read) {
  while (a.engine.sending().write(bytes_of(pattern(payload))) != 0) pump(a, b);
  a.engine.sending().shutdown();
  pump(a, b);
  std::size_t read = 0;
  while (!b.engine.receiving().at_end()) {
    const auto count = read_all(b.engine).size();
    ASSERT_NE(count, 0U);
    read += count;
    pump(a, b);
  }
  EXPECT_EQ(read, a.engine.sending().written_position());
}

TEST_F(protocol_engine_test, after_both_ends_nothing_is_sent) {
  a.engine.sending().shutdown();
  b.engine.sending().shutdown();
  pump(a, b);
  a.engine.receiving().shutdown();
  b.engine.receiving().shutdown();
  EXPECT_FALSE(a.send() || b.send());
}

// --- stop ----------------------------------------------------------------------------------------

TEST_F(protocol_engine_test, after_shutdown_read_the_peers_writes_fail_and_its_end_arrives) {
  while (a.engine.sending().write(bytes_of(pattern(payload))) != 0) pump(a, b);
  const auto sent = a.engine.statistics().frames_sent;
  b.engine.receiving().shutdown();
  EXPECT_TRUE(b.engine.receiving().at_end() && b.engine.receiving().can_read());
  EXPECT_EQ(b.engine.receiving().available(), 0U);
  pump(a, b);

  EXPECT_EQ(a.engine.statistics().frames_sent, sent + 1) << "its fin, and nothing that was queued";
  EXPECT_TRUE(a.engine.sending().can_write());
  EXPECT_EQ(a.engine.sending().write(bytes_of("x")), 0U);
  const auto failed = a.engine.sending().check();
  ASSERT_FALSE(failed.has_value());
  EXPECT_EQ(failed.error(), std::errc::broken_pipe);
  EXPECT_EQ(failed.error().category(), error_category::peer);
  EXPECT_EQ(a.engine.sending().released_position(), a.engine.sending().written_position());
  EXPECT_FALSE(a.engine.failure()) << "the other direction goes on";

  write_all(b.engine, "still here");
  b.engine.sending().shutdown();
  pump(a, b);
  EXPECT_EQ(read_all(a.engine), "still here");
  EXPECT_TRUE(a.engine.wants_disconnect() && b.engine.wants_disconnect());
}

TEST_F(protocol_engine_test, what_arrives_after_shutdown_read_is_dropped_and_its_buffers_return) {
  write_all(a.engine, pattern(4 * payload));
  while (a.send()) {
  }
  b.engine.receiving().shutdown();
  pump(a, b);

  EXPECT_EQ(b.engine.receiving().available(), 0U);
  EXPECT_FALSE(b.engine.failure());
  a.engine.sending().shutdown();
  b.engine.sending().shutdown();
  pump(a, b);
  EXPECT_TRUE(a.engine.wants_disconnect() && b.engine.wants_disconnect());
}

TEST_F(protocol_engine_test, a_stop_reaches_a_peer_that_does_not_read_either) {
  while (a.engine.sending().write(bytes_of(pattern(payload))) +
             b.engine.sending().write(bytes_of(pattern(payload))) !=
         0) {
    pump(a, b);
  }
  b.engine.receiving().shutdown();
  b.engine.receiving().shutdown();
  pump(a, b);
  EXPECT_EQ(a.engine.sending().check().error(), std::errc::broken_pipe);
}

// --- abort, loss ---------------------------------------------------------------------------------

TEST_F(protocol_engine_test, an_abort_reaches_a_peer_that_does_not_read_and_ends_everything) {
  while (a.engine.sending().write(bytes_of(pattern(payload))) +
             b.engine.sending().write(bytes_of(pattern(payload))) !=
         0) {
    pump(a, b);
  }
  a.engine.abort();
  EXPECT_FALSE(a.engine.wants_disconnect()) << "the peer is to be told first";
  pump(a, b);

  for (const auto& failed : {b.engine.receiving().check(), b.engine.sending().check()}) {
    ASSERT_FALSE(failed.has_value());
    EXPECT_EQ(failed.error(), std::errc::connection_reset);
    EXPECT_EQ(failed.error().category(), error_category::peer);
    EXPECT_EQ(failed.error().problem(), "aborted by the peer");
  }
  for (const auto& failed : {a.engine.receiving().check(), a.engine.sending().check()}) {
    ASSERT_FALSE(failed.has_value());
    EXPECT_EQ(failed.error(), std::errc::connection_aborted);
  }
  for (const auto* side : {&a, &b}) {
    EXPECT_TRUE(side->engine.wants_disconnect());
    EXPECT_TRUE(side->engine.receiving().can_read() && side->engine.sending().can_write());
    EXPECT_EQ(side->engine.receiving().available(), 0U);
    EXPECT_FALSE(side->engine.receiving().at_end());
  }
}

TEST_F(protocol_engine_test, an_abort_stays_an_abort_when_the_connection_goes) {
  a.engine.sending().shutdown();
  pump(a, b);
  a.engine.abort();
  pump(a, b);
  b.engine.connection_lost();
  EXPECT_FALSE(b.engine.receiving().at_end());
  EXPECT_EQ(b.engine.failure().value(), std::errc::connection_reset);
}

TEST_F(protocol_engine_test, a_lost_connection_is_not_the_end_but_leaves_what_has_arrived) {
  write_all(a.engine, "arrived");
  pump(a, b);
  b.engine.connection_lost();

  EXPECT_TRUE(b.engine.receiving().check().has_value());
  EXPECT_EQ(read_all(b.engine), "arrived");
  EXPECT_FALSE(b.engine.receiving().at_end());
  EXPECT_TRUE(b.engine.receiving().can_read() && b.engine.sending().can_write());
  EXPECT_EQ(b.engine.receiving().check().error(), std::errc::connection_aborted);
  EXPECT_THAT(b.engine.sending().check().error().problem(), HasSubstr("lost"));
  EXPECT_TRUE(b.engine.wants_disconnect());
  EXPECT_FALSE(b.send());
}

TEST_F(protocol_engine_test, a_connection_lost_behind_the_peers_fin_still_reads_to_the_end) {
  write_all(a.engine, "all");
  a.engine.sending().shutdown();
  pump(a, b);
  b.engine.connection_lost();

  EXPECT_EQ(read_all(b.engine), "all");
  EXPECT_TRUE(b.engine.receiving().at_end());
  EXPECT_TRUE(b.engine.receiving().check().has_value());
  EXPECT_EQ(b.engine.sending().check().error(), std::errc::connection_aborted);
}

TEST_F(protocol_engine_test, an_abort_without_a_connection_sends_nothing) {
  a.engine.connection_lost();
  a.engine.abort();
  EXPECT_FALSE(a.send());
  EXPECT_THAT(a.engine.failure().value().problem(), HasSubstr("lost"));
}

// --- violations ----------------------------------------------------------------------------------

namespace {

struct violation {
  std::string_view problem;
  std::vector<std::byte> frame;
};

// Each is told to an engine that has received data frame 0 and has sent one frame; the peer has 6
// buffers for data and has granted them all, so 6 or 7 are what it may say.
std::vector<violation> violations() {
  const auto with_kind = [](std::uint8_t kind) {
    auto frame = forged({.sequence = 1, .granted = 6}, 1);
    frame[0] = std::byte(kind);
    return frame;
  };
  auto too_long = forged({.sequence = 1, .granted = 6}, 8);
  too_long.pop_back();
  return {
      {"unknown kind", with_kind(77)},
      {"shorter than its header", std::vector<std::byte>(5)},
      {"shorter than its header", {}},
      {"claims 8 bytes of payload and has 7", too_long},
      {"frame 0 instead of 1", forged({.sequence = 0, .granted = 6}, 1)},
      {"frame 2 instead of 1", forged({.sequence = 2, .granted = 6}, 1)},
      {"granted up to 8", forged({.sequence = 1, .granted = 8}, 1)},
      {"granted up to 5", forged({.sequence = 1, .granted = 5}, 1)},
      {"granted up to 4294967295", forged({.sequence = 1, .granted = ~0U}, 1)},
      {"granted up to 2147483654", forged({.sequence = 1, .granted = 0x8000'0006}, 1)},
      {"empty data frame", forged({.sequence = 1, .granted = 6}, 0)},
      {"credit frame with 1", forged({.kind = frame_kind::credit, .sequence = 1, .granted = 6}, 1)},
  };
}

}  // namespace

TEST_F(protocol_engine_test, a_violation_ends_the_connection_with_an_error_that_stays) {
  for (const auto& [problem, frame] : violations()) {
    engine_side victim(terms_of(small_window, small_window), {});
    write_all(victim.engine, "sent");
    ASSERT_TRUE(victim.send());
    ASSERT_TRUE(victim.arrive(forged({.sequence = 0, .granted = 6}, 1)).has_value());

    const auto failed = victim.arrive(frame);

    ASSERT_FALSE(failed.has_value()) << problem;
    EXPECT_EQ(failed.error(), std::errc::protocol_error);
    EXPECT_EQ(failed.error().category(), error_category::peer);
    EXPECT_THAT(std::string(failed.error().problem()), HasSubstr(std::string(problem)));
    EXPECT_EQ(victim.engine.failure().value().problem(), failed.error().problem());
    EXPECT_EQ(victim.engine.receiving().available(), 0U);
    EXPECT_FALSE(victim.engine.receiving().at_end());

    const auto honest = victim.arrive(forged({.sequence = 1, .granted = 6}, 1));
    ASSERT_FALSE(honest.has_value());
    EXPECT_EQ(honest.error().problem(), failed.error().problem());
    EXPECT_EQ(victim.engine.sending().check().error(), std::errc::protocol_error);
    EXPECT_FALSE(victim.post_receive());

    EXPECT_FALSE(victim.engine.wants_disconnect());
    const auto reset = victim.engine.next_send();
    ASSERT_TRUE(reset.has_value());
    EXPECT_EQ(header_of(*reset).kind, frame_kind::reset);
    EXPECT_FALSE(victim.send());
    victim.engine.sending().sent_up_to(reset->id);
    EXPECT_TRUE(victim.engine.wants_disconnect());
  }
}

TEST_F(protocol_engine_test, valid_frames_next_to_each_violation_are_accepted) {
  for (const std::uint32_t granted : {6U, 7U}) {
    engine_side victim(terms_of(small_window, small_window), {});
    write_all(victim.engine, "sent");
    ASSERT_TRUE(victim.send());
    ASSERT_TRUE(victim.arrive(forged({.sequence = 0, .granted = 6}, 1)).has_value());
    EXPECT_TRUE(victim.arrive(forged({.sequence = 1, .granted = granted}, payload)).has_value());
    EXPECT_EQ(victim.engine.sending().credits(), granted - 1);
  }
}

TEST_F(protocol_engine_test, data_after_fin_and_a_second_stop_are_violations) {
  EXPECT_TRUE(b.arrive(forged({.fin = true, .granted = 6}, 1)).has_value());
  EXPECT_TRUE(
      b.arrive(forged({.kind = frame_kind::credit, .sequence = 1, .granted = 6}, 0)).has_value());
  EXPECT_THAT(b.arrive(forged({.sequence = 1, .granted = 6}, 1)).error().problem(),
              HasSubstr("data after fin"));

  EXPECT_TRUE(a.arrive(forged({.kind = frame_kind::stop, .granted = 6}, 0)).has_value());
  EXPECT_THAT(a.arrive(forged({.kind = frame_kind::stop, .granted = 6}, 0)).error().problem(),
              HasSubstr("stop after stop"));
}

TEST_F(protocol_engine_test, a_peer_accused_of_a_violation_is_told_so) {
  EXPECT_FALSE(a.arrive(std::vector<std::byte>(3)).has_value());
  EXPECT_TRUE(a.send() && a.deliver_to(b));

  EXPECT_EQ(b.engine.failure().value(), std::errc::connection_reset);
  EXPECT_THAT(b.engine.failure().value().problem(), HasSubstr("was invalid"));
}

TEST_F(protocol_engine_test, without_room_for_a_reset_a_failed_connection_ends_without_one) {
  // A credit frame and a stop that the peer does not acknowledge.
  for (std::uint32_t sequence = 0; sequence < 4; ++sequence)
    ASSERT_TRUE(a.arrive(forged({.sequence = sequence, .granted = 6}, 1)).has_value());
  read_all(a.engine);
  while (a.post_receive()) {
  }
  ASSERT_TRUE(a.send());
  ASSERT_EQ(a.engine.statistics().credit_frames_sent, 1U);
  a.engine.receiving().shutdown();
  ASSERT_TRUE(a.send());

  a.engine.abort();

  EXPECT_FALSE(a.send());
  EXPECT_TRUE(a.engine.wants_disconnect());
}

// --- misuse by the driver ------------------------------------------------------------------------

TEST_F(protocol_engine_test, a_buffer_that_was_not_posted_is_the_drivers_mistake) {
  EXPECT_EQ(a.engine.received(8, 16).error().category(), error_category::misuse);
  EXPECT_EQ(a.engine.received(0, 65).error().category(), error_category::misuse);
  EXPECT_TRUE(a.arrive(forged({.granted = 6}, 1)).has_value());
  EXPECT_EQ(a.engine.received(0, 17).error().category(), error_category::misuse);
  EXPECT_FALSE(a.engine.failure());
}

TEST(protocol_engine, memory_that_does_not_fit_the_negotiated_terms_is_refused) {
  std::vector<std::byte> control(send_half::control_bytes);
  std::vector<std::byte> send(2 * std::size_t{64});
  std::vector<std::byte> receive(8 * std::size_t{64});
  send_pool sends(send, 64);
  receive_pool receives(receive, 64);
  const auto terms = terms_of(small_window, small_window);
  const auto problem = [](const agreement& agreed, const engine_memory& memory) {
    const auto made = protocol_engine::create(agreed, memory);
    return made ? std::string("none") : describe(made.error());
  };
  const engine_memory right{
      .control = control, .send = &sends, .send_buffers = 2, .receive = &receives};
  EXPECT_EQ(problem(terms, right), "none");
  EXPECT_EQ(
      describe(right),
      "sends from 2 of 2 buffers of 64 bytes, 2 available, receives in 8 buffers of 64 bytes, "
      "all posted or unread, 0 to spare");
  EXPECT_EQ(describe(engine_memory{}), "no memory");

  auto wrong = right;
  wrong.receive = nullptr;
  EXPECT_THAT(problem(terms, wrong), HasSubstr("a pool is missing"));
  wrong = right;
  wrong.send = nullptr;
  EXPECT_THAT(problem(terms, wrong), HasSubstr("a pool is missing"));
  receive_pool too_few(std::span<std::byte>(receive).first(511), 64);
  wrong = right;
  wrong.receive = &too_few;
  EXPECT_THAT(problem(terms, wrong), HasSubstr("give it at least 8 buffers of 64 bytes"));
  receive_pool too_long(receive, 65);
  wrong.receive = &too_long;
  EXPECT_THAT(problem(terms, wrong), HasSubstr("give it at least 8 buffers of 64 bytes"));
  send_pool too_short(send, 63);
  wrong = right;
  wrong.send = &too_short;
  EXPECT_THAT(problem(terms, wrong), HasSubstr("send buffers of 63 bytes"));
  send_pool only_one(std::span<std::byte>(send).first(64), 64);
  wrong.send = &only_one;
  EXPECT_THAT(problem(terms, wrong), HasSubstr("give it at least 2"));
  wrong = right;
  wrong.send_buffers = 1;
  EXPECT_THAT(problem(terms, wrong), HasSubstr("give it at least 2"));
  wrong = right;
  wrong.control = wrong.control.first(send_half::control_bytes - 1);
  EXPECT_THAT(problem(terms, wrong), HasSubstr("127 bytes for control frames"));
  auto terms_of_a_dwarf = terms;
  terms_of_a_dwarf.peer.buffers = 2;
  EXPECT_THAT(problem(terms_of_a_dwarf, right), HasSubstr("2 receive buffers"));
}

TEST(protocol_engine, credits_for_a_peer_that_never_reads_leave_room_for_the_end) {
  // A reader that also writes, to a peer that never reads: it has no credits any more.
  engine_side a(terms_of(small_window, small_window), {});
  engine_side b(terms_of(small_window, small_window), {});
  while (a.engine.sending().write(bytes_of(pattern(payload))) != 0) pump(a, b);
  ASSERT_EQ(a.engine.sending().credits(), 0U);
  for (int i = 0; i < 1000; ++i) {
    ASSERT_NE(b.engine.sending().write(bytes_of(pattern(3 * payload))), 0U) << "round " << i;
    pump(a, b);
    read_all(a.engine);
  }
  EXPECT_GT(a.engine.statistics().credit_frames_sent, 500U);
  pump(a, b);
  a.engine.receiving().shutdown();
  pump(a, b);
  EXPECT_EQ(b.engine.sending().check().error(), std::errc::broken_pipe);
  a.engine.abort();
  pump(a, b);
  ASSERT_TRUE(b.engine.failure());
  EXPECT_EQ(*b.engine.failure(), std::errc::connection_reset);
}

TEST(protocol_engine, a_driver_that_posts_receives_late_delays_only_itself) {
  engine_side a(terms_of(small_window, small_window), {});
  engine_side b(terms_of(small_window, small_window), {});
  while (a.engine.sending().write(bytes_of(pattern(payload))) != 0) pump(a, b);
  for (int i = 0; i < 20; ++i) {
    static_cast<void>(b.engine.sending().write(bytes_of(pattern(4 * payload))));
    while (b.send() || b.deliver_to(a) || b.complete_send()) {
    }
    read_all(a.engine);
    while (a.post_receive() || a.send() || a.deliver_to(b) || a.complete_send()) {
    }
  }
  EXPECT_FALSE(b.send());
  EXPECT_FALSE(b.engine.sending().can_write());
  pump(a, b);
  EXPECT_TRUE(b.engine.sending().can_write());
}

TEST(protocol_engine, is_described_with_its_numbers) {
  engine_side a(terms_of(small_window, small_window), {});
  write_all(a.engine, "hello");
  std::ostringstream streamed;
  streamed << a.engine;
  EXPECT_EQ(streamed.str(),
            "stream engine: 6 credits, 0 frames in flight, 5 bytes written and not released, 0 to "
            "read");
  EXPECT_THAT(describe(a.engine.statistics()), HasSubstr("written 5 bytes"));
  a.engine.abort();
  EXPECT_THAT(describe(a.engine), HasSubstr("aborted by this side"));
  EXPECT_EQ(a.engine.sending().most_in_flight(), 8U);
}
