// What a side may send without a credit: two frames that are not data and that the peer has not
// acknowledged, of which one may be a credit frame.

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <rdmaxx/stream/protocol_engine.hpp>

#include "unit/stream/engine_pipe.hpp"
#include "unit/stream/engine_texts.hpp"

using namespace rdmaxx;
using namespace rdmaxx::stream_protocol;
using namespace rdmaxx_test;
using testing::HasSubstr;

namespace {

// Room for one data frame: every one of them is followed by a credit frame.
constexpr receive_window dwarf{.buffers = receive_window::fewest_buffers, .buffer_bytes = 64};
constexpr std::size_t payload = 64 - frame_header_bytes;

class control_frames_test : public testing::Test {
 protected:
  /// A frame of a peer that has received only what `header` says.
  result<void> tell(engine_side& side, frame_header header) {
    header.granted += 1;
    return side.arrive(forged(header, header.kind == frame_kind::data ? 1 : 0));
  }
  /// The reader has read, and the driver does what follows. True if a frame was sent.
  static bool read_and_send(engine_side& side) {
    read_all(side.engine);
    while (side.post_receive()) {
    }
    return side.send();
  }

  engine_side a{terms_of(dwarf, dwarf), {}};
  engine_side b{terms_of(dwarf, dwarf), {}};
};

}  // namespace

TEST_F(control_frames_test, a_credit_frame_waits_until_the_one_before_is_acknowledged) {
  ASSERT_TRUE(tell(a, {.sequence = 0}));
  ASSERT_TRUE(read_and_send(a));
  EXPECT_EQ(a.engine.statistics().credit_frames_sent, 1U);
  ASSERT_TRUE(tell(a, {.sequence = 1}));  // has crossed the credit frame, as far as anybody knows
  EXPECT_FALSE(read_and_send(a));
  EXPECT_EQ(a.engine.receiving().window(), 0U);

  ASSERT_TRUE(tell(a, {.kind = frame_kind::credit, .acknowledged = 1, .sequence = 2}));

  EXPECT_TRUE(read_and_send(a));
  EXPECT_EQ(a.engine.statistics().credit_frames_sent, 2U);
  EXPECT_EQ(a.engine.receiving().window(), 1U);
}

TEST_F(control_frames_test, a_stop_finds_room_beside_a_credit_frame_and_a_credit_frame_beside_it) {
  ASSERT_TRUE(tell(a, {.sequence = 0}));
  ASSERT_TRUE(read_and_send(a));
  a.engine.receiving().shutdown();
  EXPECT_TRUE(a.send()) << "the stop";
  ASSERT_TRUE(tell(a, {.sequence = 1}));
  EXPECT_FALSE(read_and_send(a)) << "two are under way";
  ASSERT_TRUE(tell(a, {.kind = frame_kind::credit, .acknowledged = 1, .sequence = 2}));
  EXPECT_TRUE(read_and_send(a)) << "a credit frame beside the stop";
  EXPECT_EQ(a.engine.statistics().credit_frames_sent, 2U);
}

TEST_F(control_frames_test, both_sides_acknowledge_with_whatever_they_send_next) {
  for (int i = 0; i < 1000; ++i) {
    for (auto* side : {&a, &b}) {
      auto& other = side == &a ? b : a;
      ASSERT_EQ(side->engine.sending().write(bytes_of(pattern(payload))), payload) << i;
      pump(a, b);
      ASSERT_EQ(read_all(other.engine).size(), payload) << i;
      pump(a, b);
    }
  }
  EXPECT_EQ(a.engine.statistics().credit_frames_sent, 1000U) << "more than fit into 8 bits";
  EXPECT_FALSE(a.receiver_not_ready || b.receiver_not_ready);
  EXPECT_FALSE(a.engine.failure() || b.engine.failure());
}

TEST_F(control_frames_test, a_reset_finds_room_beside_a_credit_frame) {
  ASSERT_TRUE(tell(a, {.sequence = 0}));
  ASSERT_TRUE(read_and_send(a));
  a.engine.abort();
  EXPECT_FALSE(a.engine.wants_disconnect());
  const auto reset = a.engine.next_send();
  ASSERT_TRUE(reset.has_value());
  EXPECT_EQ(header_of(*reset).kind, frame_kind::reset);
}

TEST_F(control_frames_test, a_reset_without_room_is_not_waited_for) {
  ASSERT_TRUE(tell(a, {.sequence = 0}));
  ASSERT_TRUE(read_and_send(a));
  a.engine.receiving().shutdown();
  ASSERT_TRUE(a.send());
  EXPECT_FALSE(tell(a, {.sequence = 77}));
  EXPECT_FALSE(a.send());
  EXPECT_TRUE(a.engine.wants_disconnect());
}

TEST_F(control_frames_test, a_frame_header_reports_what_is_ready_to_follow) {
  constexpr receive_window window{.buffers = 8, .buffer_bytes = 64};
  engine_side side(terms_of(window, window), {.slots = 4});
  const auto wanted = [&side] { return int{header_of(side.engine.next_send().value()).wanted}; };
  write_all(side.engine, pattern(3 * payload));
  EXPECT_EQ(wanted(), 2);
  side.engine.sending().announce(2 * payload + 1);
  EXPECT_EQ(wanted(), 1 + 3) << "what is written, and what will be";
  side.engine.sending().announce(1'000'000);
  EXPECT_EQ(wanted(), 255);
  side.engine.sending().announce(payload + 1);
  write_all(side.engine, pattern(payload));
  EXPECT_EQ(wanted(), 1) << "what has been written is not announced any more";
  side.engine.sending().announce(0);
  side.engine.sending().shutdown();
  EXPECT_EQ(wanted(), 0);
}

// --- violations ----------------------------------------------------------------------------------

TEST_F(control_frames_test, data_without_a_credit_is_a_violation) {
  ASSERT_TRUE(tell(a, {.sequence = 0}));
  const auto failed = tell(a, {.sequence = 1});
  ASSERT_FALSE(failed);
  EXPECT_EQ(failed.error(), std::errc::protocol_error);
  EXPECT_EQ(failed.error().problem(), "data frame 1 without a credit");
}

TEST_F(control_frames_test, data_for_a_buffer_that_is_free_but_not_granted_yet_is_a_violation) {
  constexpr receive_window window{.buffers = 4, .buffer_bytes = 64};
  engine_side side(terms_of(window, window), {});
  ASSERT_TRUE(side.arrive(forged({.sequence = 0, .granted = 2}, 1)).has_value());
  EXPECT_FALSE(read_and_send(side)) << "half of the window: not due yet";
  ASSERT_TRUE(side.arrive(forged({.sequence = 1, .granted = 2}, 1)).has_value());
  EXPECT_FALSE(side.arrive(forged({.sequence = 2, .granted = 2}, 1)).has_value());
}

TEST_F(control_frames_test, a_third_unacknowledged_control_frame_is_a_violation) {
  const frame_header credit{.kind = frame_kind::credit};
  ASSERT_TRUE(tell(a, credit));
  ASSERT_TRUE(tell(a, credit));
  const auto failed = tell(a, credit);
  ASSERT_FALSE(failed);
  EXPECT_EQ(failed.error().problem(), "a credit frame too many");
  EXPECT_FALSE(a.receiver_not_ready) << "its buffer was one for data";
}

TEST_F(control_frames_test, control_frames_are_counted_from_the_last_answer) {
  const frame_header credit{.kind = frame_kind::credit};
  ASSERT_TRUE(tell(a, credit));
  ASSERT_TRUE(tell(a, credit));
  write_all(a.engine, "x");
  ASSERT_TRUE(read_and_send(a));
  EXPECT_TRUE(tell(a, credit));
  EXPECT_TRUE(tell(a, credit));
  EXPECT_FALSE(tell(a, credit));
}

TEST_F(control_frames_test, acknowledging_what_was_not_sent_is_a_violation) {
  const auto failed = tell(a, {.acknowledged = 1});
  ASSERT_FALSE(failed);
  EXPECT_EQ(failed.error().problem(), "1 control frames are acknowledged, of 0 that were sent");

  ASSERT_TRUE(tell(b, {.sequence = 0}));
  ASSERT_TRUE(read_and_send(b));
  ASSERT_TRUE(tell(b, {.acknowledged = 1, .sequence = 1}));
  EXPECT_FALSE(tell(b, {.kind = frame_kind::credit, .sequence = 2})) << "that takes it back";
}

TEST_F(control_frames_test,
       growth_is_granted_up_to_the_announced_one_and_beyond_it_is_a_violation) {
  constexpr receive_window grows{.buffers = 3, .buffer_bytes = 64, .growth = 4};
  for (const std::uint32_t granted : {5U, 6U}) {
    engine_side side(terms_of(dwarf, grows), {});
    EXPECT_EQ(side.engine.sending().credits(), 1U);
    const auto told =
        side.arrive(forged({.kind = frame_kind::credit, .sequence = 0, .granted = granted}, 0));
    EXPECT_EQ(told.has_value(), granted == 5U);
    if (told) {
      EXPECT_EQ(side.engine.sending().credits(), 5U);
    } else {
      EXPECT_THAT(std::string(told.error().problem()), HasSubstr("5 buffers are granted up to 6"));
    }
  }
}
