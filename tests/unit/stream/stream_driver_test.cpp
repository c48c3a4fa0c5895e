// stream_driver on a device that does what the test says.

#include "stream/stream_driver.hpp"

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <rdmaxx/core/clock.hpp>

#include "unit/stream/fake_stream_device.hpp"

namespace rdmaxx {

namespace {

using namespace std::chrono_literals;
using namespace stream_protocol;
using detail::interest;
using detail::stream_device;
using detail::stream_driver;
using event = stream_device::connection_event;
using testing::HasSubstr;

constexpr receive_window window{.buffers = 8, .buffer_bytes = 64};
constexpr std::size_t payload = 64 - frame_header_bytes;
// The own sequence wraps around soon.
constexpr agreement terms{
    .own = window, .peer = window, .own_first_sequence = 0U - 2, .peer_first_sequence = 500};

std::span<const std::byte> bytes_of(std::string_view text) {
  return std::as_bytes(std::span(text));
}

frame_header header_of(const rdmaxx_test::fake_stream_device::posted_send& sent) {
  return decode_frame(sent.bytes).value();
}

stream_options options_of(std::uint32_t send_buffers = 4) {
  return {.window = window,
          .send_buffers = send_buffers,
          .send_buffer_bytes = rdmaxx_test::fake_stream_device::send_buffer_bytes,
          .keep_alive = 500ms,
          .keep_alive_timeout = 2s};
}

class stream_driver_test : public testing::Test {
 protected:
  /// The next frame of the peer, which has not got more buffers back than it had.
  void arrive(std::string_view text, bool fin = false) {
    device.arrive({.kind = frame_kind::data,
                   .fin = fin,
                   .sequence = peer_sequence++,
                   .granted = terms.own_first_sequence + peer_granted},
                  bytes_of(text));
  }
  void write(std::string_view text) {
    ASSERT_EQ(driver.write(bytes_of(text)), text.size());
    driver.post_due();
  }
  std::string read(std::size_t most = 1000) {
    std::string text(most, ' ');
    text.resize(driver.read(std::as_writable_bytes(std::span(text))));
    driver.post_due();
    return text;
  }
  /// The error that a user sees on the next read.
  error failure_of_reading() {
    const auto state = driver.engine().receiving().check();
    if (state) ADD_FAILURE() << "reading has not failed";
    return driver.explain(state.error());
  }

  manual_clock time;
  rdmaxx_test::fake_stream_device device{terms, 4};
  stream_driver driver{device, device.make_engine(), options_of()};
  std::uint32_t peer_sequence = terms.peer_first_sequence;
  std::uint32_t peer_granted = window.credits();
};

// --- posting and completions ---------------------------------------------------------------------

TEST_F(stream_driver_test, what_is_written_is_posted_as_one_frame_with_its_id) {
  write("hello");
  ASSERT_EQ(device.sends.size(), 1U);
  EXPECT_EQ(device.sends[0].id, 0U);
  EXPECT_EQ(header_of(device.sends[0]).sequence, terms.own_first_sequence);
  EXPECT_TRUE(device.sends[0].is_signaled) << "nothing behind it would tell of it";
  EXPECT_EQ(header_of(device.sends[0]).length, 5U);
}

TEST_F(stream_driver_test, the_middle_and_the_end_of_a_batch_are_signaled) {
  EXPECT_EQ(driver.engine().sending().write(bytes_of(std::string(4 * payload, 'x'))), 4 * payload);
  driver.post_due();
  ASSERT_EQ(device.sends.size(), 4U);
  std::vector<bool> signaled;
  for (const auto& sent : device.sends) signaled.push_back(sent.is_signaled);
  EXPECT_EQ(signaled, (std::vector{false, true, false, true}));
}

TEST_F(stream_driver_test, a_long_write_posts_the_first_half_before_it_fills_the_second) {
  EXPECT_EQ(driver.write(bytes_of(std::string(10 * payload, 'x'))), 4 * payload);
  EXPECT_EQ(device.sends.size(), 4U);
  EXPECT_TRUE(device.sends[1].is_signaled) << "it was the last one when it was posted";
}

TEST_F(stream_driver_test, a_completion_makes_room_for_all_before_it) {
  write(std::string(4 * payload, 'x'));
  driver.make_room();
  EXPECT_FALSE(driver.engine().sending().can_write());
  device.complete_sends();
  driver.make_room();
  EXPECT_TRUE(driver.engine().sending().can_write());
  EXPECT_EQ(driver.engine().sending().in_flight(), 0U);
}

TEST_F(stream_driver_test, what_arrives_is_read_and_its_buffer_is_posted_again) {
  arrive("hello");
  EXPECT_FALSE(driver.engine().receiving().can_read());
  driver.progress();
  EXPECT_EQ(device.receives.size(), window.buffers - 1);
  EXPECT_EQ(read(), "hello");
  EXPECT_EQ(device.receives.size(), window.buffers);
}

TEST_F(stream_driver_test, activity_grows_only_if_something_has_happened) {
  driver.progress();
  const auto idle = driver.activity();
  driver.progress();
  EXPECT_EQ(driver.activity(), idle);
  arrive("x");
  driver.progress();
  const auto after_arrival = driver.activity();
  EXPECT_GT(after_arrival, idle);
  write("y");
  const auto after_post = driver.activity();
  EXPECT_GT(after_post, after_arrival);
  device.complete_sends();
  driver.progress();
  EXPECT_GT(driver.activity(), after_post);
}

// --- arming --------------------------------------------------------------------------------------

TEST_F(stream_driver_test, a_reader_arms_the_receives_only_and_only_once) {
  driver.arm(interest::arrivals);
  driver.arm(interest::arrivals);
  EXPECT_EQ(device.arms[1], 1);
  EXPECT_EQ(device.arms[0], 0);
}

TEST_F(stream_driver_test, a_reader_arms_the_sends_if_something_waits_for_them) {
  write("a");
  driver.arm(interest::arrivals);
  EXPECT_EQ(device.arms[0], 0) << "nothing waits for this send";
  ASSERT_EQ(driver.engine().sending().write(bytes_of("b")), 1U);
  driver.arm(interest::arrivals);
  EXPECT_EQ(device.arms[0], 1) << "the second small write leaves when the first one is done";
}

TEST_F(stream_driver_test, what_completed_before_the_queues_were_armed_is_seen_by_arming) {
  arrive("early");
  driver.arm(interest::arrivals);
  EXPECT_TRUE(driver.engine().receiving().can_read());
}

TEST_F(stream_driver_test, an_event_disarms_its_own_queue) {
  driver.arm(interest::anything);
  arrive("x");
  driver.take_completion_events();
  driver.arm(interest::anything);
  EXPECT_EQ(device.arms[1], 2);
  EXPECT_EQ(device.arms[0], 1) << "its event is still due";
}

TEST_F(stream_driver_test, tells_which_descriptors_to_watch) {
  EXPECT_EQ(driver.descriptors(), (std::array{device.completion_fd(), device.connection_fd()}));
}

// --- failures ------------------------------------------------------------------------------------

TEST_F(stream_driver_test, a_send_that_fails_is_the_cause_and_what_is_flushed_is_not) {
  write(std::string(3 * payload, 'x'));
  device.fail_sends(IBV_WC_RETRY_EXC_ERR);
  device.flush_receives();
  driver.progress();
  EXPECT_TRUE(driver.is_down());
  EXPECT_EQ(device.disconnects, 1);
  EXPECT_EQ(failure_of_reading().code(), wc_status::retry_exceeded);
}

TEST_F(stream_driver_test, what_had_arrived_before_the_loss_can_be_read) {
  write("x");
  arrive("last words");
  device.fail_sends(IBV_WC_RETRY_EXC_ERR);
  driver.progress();
  EXPECT_EQ(read(), "last words");
  EXPECT_EQ(failure_of_reading().code(), wc_status::retry_exceeded);
}

TEST_F(stream_driver_test, what_is_flushed_before_the_cause_is_known_does_not_hide_it) {
  write("x");
  device.flush_receives();
  driver.progress();
  device.fail_sends(IBV_WC_RETRY_EXC_ERR);
  driver.progress();
  EXPECT_EQ(failure_of_reading().code(), wc_status::retry_exceeded);
}

TEST_F(stream_driver_test, a_post_that_fails_ends_the_connection) {
  device.takes_only = 1;
  ASSERT_EQ(driver.engine().sending().write(bytes_of(std::string(3 * payload, 'x'))), 3 * payload);
  driver.post_due();
  EXPECT_TRUE(driver.is_down());
  EXPECT_EQ(device.disconnects, 1);
  EXPECT_EQ(failure_of_reading(), std::errc::not_enough_memory);
}

TEST_F(stream_driver_test, a_receive_that_cannot_be_posted_ends_the_connection) {
  arrive("x");
  driver.progress();
  device.refuses_receives = true;
  EXPECT_EQ(read(), "x");
  EXPECT_TRUE(driver.is_down());
  EXPECT_EQ(failure_of_reading(), std::errc::not_enough_memory);
}

TEST_F(stream_driver_test, a_poll_that_fails_ends_the_connection) {
  device.poll_fails = true;
  driver.progress();
  EXPECT_TRUE(driver.is_down());
  EXPECT_EQ(device.disconnects, 1);
}

TEST_F(stream_driver_test, nothing_is_posted_once_the_connection_is_down) {
  device.flush_receives();
  driver.progress();
  ASSERT_TRUE(driver.is_down());
  EXPECT_EQ(driver.write(bytes_of("x")), 0U);
  driver.progress();
  EXPECT_TRUE(device.sends.empty());
  EXPECT_TRUE(device.receives.empty());
}

TEST_F(stream_driver_test, a_peer_that_breaks_the_protocol_is_told_so_and_disconnected) {
  device.arrive({.kind = frame_kind::data, .sequence = 7, .granted = 0}, bytes_of("x"));
  driver.progress();
  ASSERT_EQ(device.sends.size(), 1U);
  EXPECT_EQ(header_of(device.sends[0]).kind, frame_kind::reset);
  EXPECT_EQ(device.disconnects, 0) << "the reset is under way";
  device.complete_sends();
  driver.progress();
  EXPECT_EQ(device.disconnects, 1);
}

// --- the peer's end ------------------------------------------------------------------------------

TEST_F(stream_driver_test, a_peer_that_disconnects_without_a_fin_is_a_loss) {
  device.connection_events.push_back(event::disconnected);
  driver.take_connection_events();
  driver.progress();
  EXPECT_TRUE(driver.is_down());
  EXPECT_EQ(device.disconnects, 1) << "the answer";
  EXPECT_EQ(failure_of_reading(), std::errc::connection_aborted);
}

TEST_F(stream_driver_test, what_had_arrived_before_a_peer_disconnects_can_be_read) {
  arrive("last words");
  device.connection_events.push_back(event::disconnected);
  driver.take_connection_events();
  driver.post_due();
  EXPECT_EQ(read(), "last words");
}

TEST_F(stream_driver_test, a_peer_that_disconnects_behind_its_fin_has_got_everything) {
  write("all of it");
  driver.engine().sending().shutdown();
  driver.post_due();
  arrive("", true);
  device.connection_events.push_back(event::disconnected);
  device.fail_sends(IBV_WC_WR_FLUSH_ERR);  // the acknowledgement was lost
  driver.progress();
  EXPECT_FALSE(driver.engine().failure());
  EXPECT_TRUE(driver.engine().sending().has_sent_fin());
  EXPECT_EQ(driver.engine().sending().unconfirmed(), 0U);
}

TEST_F(stream_driver_test, the_answer_to_the_own_disconnect_is_not_the_peers) {
  write("x");
  driver.engine().sending().shutdown();
  driver.post_due();
  arrive("", true);
  driver.disconnect();
  device.connection_events.push_back(event::disconnected);
  device.fail_sends(IBV_WC_WR_FLUSH_ERR);
  driver.progress();
  EXPECT_FALSE(driver.engine().sending().has_sent_fin());
  EXPECT_TRUE(driver.engine().failure());
}

TEST_F(stream_driver_test, both_ends_in_order_end_the_connection_once) {
  driver.engine().sending().shutdown();
  driver.post_due();
  arrive("", true);
  device.complete_sends();
  driver.progress();
  driver.progress();
  EXPECT_EQ(device.disconnects, 1);
  EXPECT_FALSE(driver.is_down());
  EXPECT_FALSE(driver.engine().failure());
}

TEST_F(stream_driver_test, other_events_of_the_connection_mean_nothing) {
  device.connection_events.push_back(event::other);
  driver.take_connection_events();
  EXPECT_FALSE(driver.is_down());
}

TEST_F(stream_driver_test, a_device_that_is_removed_is_the_cause) {
  device.connection_events.push_back(event::device_removed);
  driver.take_connection_events();
  driver.progress();
  EXPECT_EQ(failure_of_reading(), std::errc::no_such_device);
}

TEST_F(stream_driver_test, an_abort_tells_the_peer_and_its_cause_is_reported) {
  driver.abort(errno_error("writing to a stream", ETIMEDOUT));
  driver.post_due();
  ASSERT_EQ(device.sends.size(), 1U);
  EXPECT_EQ(header_of(device.sends[0]).kind, frame_kind::reset);
  EXPECT_EQ(failure_of_reading(), std::errc::timed_out);
}

// --- keep-alive ----------------------------------------------------------------------------------

TEST_F(stream_driver_test, probes_the_peer_when_its_deadline_has_passed) {
  driver.tend(library_clock::now());
  EXPECT_EQ(driver.next_deadline(), library_clock::now() + 500ms);
  EXPECT_EQ(device.probes, 0);
  time.advance(500ms);
  driver.tend(library_clock::now());
  EXPECT_EQ(device.probes, 1);
  device.complete_sends();
  driver.progress();
  driver.tend(library_clock::now());
  EXPECT_EQ(driver.next_deadline(), library_clock::now() + 500ms);
  EXPECT_FALSE(driver.is_down());
}

TEST_F(stream_driver_test, gives_up_on_a_peer_whose_device_does_not_answer) {
  for (int looks = 0; looks < 10 && !driver.is_down(); ++looks) {
    driver.tend(library_clock::now());
    if (!driver.is_down()) time.advance(driver.next_deadline() - library_clock::now());
  }
  EXPECT_EQ(device.probes, 1);
  ASSERT_TRUE(driver.is_down());
  EXPECT_EQ(driver.next_deadline(), stream_driver::time_point::max());
  driver.progress();
  EXPECT_EQ(failure_of_reading(), std::errc::host_unreachable);
  EXPECT_THAT(failure_of_reading().message(), HasSubstr("2000 ms"));
}

TEST_F(stream_driver_test, what_is_under_way_needs_no_probe) {
  write("x");
  driver.tend(library_clock::now());
  time.advance(1s);
  driver.tend(library_clock::now());
  EXPECT_EQ(device.probes, 0);
}

TEST_F(stream_driver_test, a_probe_that_cannot_be_posted_ends_the_connection) {
  device.refuses_probes = true;
  time.advance(500ms);
  driver.tend(library_clock::now());
  EXPECT_TRUE(driver.is_down());
}

TEST_F(stream_driver_test, a_probe_releases_no_frame) {
  write("x");
  const auto sent = device.sends;
  device.sends.clear();  // the device keeps it for itself
  ASSERT_TRUE(device.post_probe());
  device.complete_sends();
  driver.progress();
  EXPECT_EQ(driver.engine().sending().in_flight(), sent.size());
  EXPECT_TRUE(driver.has_caller_memory());
}

// --- memory of the caller ------------------------------------------------------------------------

TEST_F(stream_driver_test, memory_of_the_caller_is_free_when_its_requests_were_flushed) {
  ASSERT_EQ(driver.engine().sending().write_in_place(bytes_of("zero-copy"), 0), 9U);
  driver.post_due();
  EXPECT_TRUE(driver.has_caller_memory());
  driver.release_caller_memory();
  EXPECT_EQ(device.disconnects, 1);
  EXPECT_EQ(device.flushes, 1);
  driver.progress();
  EXPECT_FALSE(driver.has_caller_memory());
}

TEST_F(stream_driver_test, lost_flushes_destroy_the_queue_pair) {
  device.loses_flushes = true;
  ASSERT_EQ(driver.engine().sending().write_in_place(bytes_of("zero-copy"), 0), 9U);
  driver.post_due();
  driver.release_caller_memory();
  driver.progress();
  ASSERT_TRUE(driver.has_caller_memory());
  driver.destroy_queue_pair();
  EXPECT_FALSE(device.has_queue_pair());
  EXPECT_FALSE(driver.has_caller_memory());
  EXPECT_TRUE(driver.is_down());
  EXPECT_TRUE(driver.engine().failure());
  driver.release_caller_memory();
  EXPECT_EQ(device.flushes, 1) << "there is nothing left to flush";
}

TEST_F(stream_driver_test, requests_that_were_refused_do_not_hold_memory) {
  device.takes_only = 0;
  ASSERT_EQ(driver.engine().sending().write_in_place(bytes_of("zero-copy"), 0), 9U);
  driver.post_due();
  EXPECT_TRUE(driver.is_down());
  EXPECT_FALSE(driver.has_caller_memory());
}

}  // namespace

}  // namespace rdmaxx
