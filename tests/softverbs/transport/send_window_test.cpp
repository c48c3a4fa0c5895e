#include <transport/send_window.hpp>

#include <cstddef>
#include <deque>

#include <gtest/gtest.h>

namespace softverbs::transport {
namespace {

constexpr std::size_t mtu = 4096;

/// A round trip in which everything that the window allows is sent and arrives.
void full_round_trip(send_window& window, bool queue_builds_up = false) {
  const auto bytes = window.bytes();
  for (auto left = bytes; left >= mtu; left -= mtu)
    window.acknowledged(mtu, bytes, queue_builds_up);
}

send_window grown_to(std::size_t bytes) {
  send_window window;
  while (window.bytes() < bytes) full_round_trip(window);
  return window;
}

TEST(send_window, doubles_with_each_round_trip_up_to_its_largest) {
  send_window window;
  EXPECT_EQ(window.bytes(), send_window::first);
  full_round_trip(window);
  EXPECT_EQ(window.bytes(), 2 * send_window::first);
  for (int i = 0; i < 7; ++i) full_round_trip(window);
  EXPECT_EQ(window.bytes(), send_window::largest);
  full_round_trip(window);
  EXPECT_EQ(window.bytes(), send_window::largest);
}

TEST(send_window, does_not_grow_while_it_is_not_used) {
  send_window window;
  for (int i = 0; i < 1000; ++i) window.acknowledged(mtu, mtu, false);
  EXPECT_EQ(window.bytes(), send_window::first);
}

TEST(send_window, grows_beyond_a_hosts_needs_only_while_round_trips_stay_short) {
  send_window window;
  for (int i = 0; i < 20; ++i) full_round_trip(window, true);
  EXPECT_EQ(window.bytes(), send_window::unconditional);
  full_round_trip(window, false);
  EXPECT_EQ(window.bytes(), 2 * send_window::unconditional);
}

// A sender that always has more, and a peer that acknowledges what it is asked to acknowledge: when
// the window has been used up, and wherever a message ended.
TEST(send_window, lets_bursts_out_however_finely_they_are_acknowledged) {
  constexpr std::size_t message = 5 * mtu + 512;
  auto window = grown_to(send_window::unconditional);
  std::deque<std::size_t> asked;  // where the acknowledgements reach that are on their way
  std::size_t sent = 0;
  std::size_t acknowledged = 0;
  std::size_t bursts = 0;
  constexpr std::size_t rounds = 1000;
  for (std::size_t i = 0; i < rounds; ++i) {
    const auto before = sent;
    while (window.admits(sent - acknowledged, mtu)) {
      const auto messages = sent / message;
      sent += mtu;
      const bool full = !window.has_room(sent - acknowledged, mtu);
      if (full || sent / message != messages) asked.push_back(sent);
    }
    bursts += sent != before ? 1 : 0;
    ASSERT_FALSE(asked.empty());
    acknowledged = asked.front();
    asked.pop_front();
  }
  EXPECT_GE(sent / bursts, window.ack_interval());
}

TEST(send_window, a_full_one_opens_when_nothing_is_under_way) {
  send_window window;
  window.timed_out(mtu);
  EXPECT_TRUE(window.admits(0, mtu));
  EXPECT_FALSE(window.admits(mtu, mtu));
  EXPECT_TRUE(window.admits(0, mtu));
}

TEST(send_window, is_halved_by_a_loss_and_grows_by_a_quarter_from_there) {
  auto window = grown_to(send_window::largest);
  window.lost(mtu);
  EXPECT_EQ(window.bytes(), send_window::restart) << "what is sent at once";
  for (int i = 0; i < 4; ++i) full_round_trip(window);
  EXPECT_EQ(window.bytes(), send_window::largest / 2);
  full_round_trip(window);
  EXPECT_EQ(window.bytes(), send_window::largest / 2 / 4 * 5);
}

TEST(send_window, does_not_fall_below_what_arrives_between_losses) {
  // One packet in a hundred is lost, at random: a hundred arrive between two losses.
  auto window = grown_to(std::size_t{1024} * 1024);
  for (int i = 0; i < 100; ++i) {
    for (int packet = 0; packet < 100; ++packet) window.acknowledged(mtu, window.bytes(), false);
    window.lost(mtu);
  }
  EXPECT_GT(window.bytes(), 90 * mtu);
  EXPECT_LT(window.bytes(), 150 * mtu);
}

TEST(send_window, falls_to_what_a_receiver_takes_at_once) {
  auto window = grown_to(send_window::largest);
  for (int i = 0; i < 30; ++i) {
    window.acknowledged(10 * mtu, window.bytes(), false);
    window.lost(mtu);
  }
  EXPECT_LE(window.bytes(), 20 * mtu);
  EXPECT_GE(window.bytes(), 2 * mtu);
}

TEST(send_window, is_one_packet_after_silence_and_begins_anew_with_the_answer) {
  auto window = grown_to(send_window::largest);
  window.timed_out(mtu);
  window.timed_out(mtu);
  EXPECT_EQ(window.bytes(), mtu);
  window.acknowledged(mtu, mtu, false);
  EXPECT_EQ(window.bytes(), send_window::first);
  for (int i = 0; i < 7; ++i) full_round_trip(window);
  EXPECT_EQ(window.bytes(), send_window::largest / 2) << "the end of slow start";
}

TEST(send_window, is_as_before_when_an_answer_was_only_late) {
  auto window = grown_to(send_window::largest);
  window.timed_out(mtu);
  window.timed_out(mtu);
  window.nothing_was_lost();
  window.acknowledged(mtu, send_window::largest, false);
  EXPECT_EQ(window.bytes(), send_window::largest);
}

TEST(send_window, begins_small_after_a_pause) {
  auto window = grown_to(send_window::largest);
  window.restart_after_pause();
  EXPECT_EQ(window.bytes(), send_window::first);
  for (int i = 0; i < 8; ++i) full_round_trip(window);
  EXPECT_EQ(window.bytes(), send_window::largest) << "as fast as at first";
}

TEST(send_window, asks_for_acknowledgements_four_times_but_in_small_bursts) {
  EXPECT_EQ(send_window().ack_interval(), send_window::first / 4);
  EXPECT_EQ(grown_to(send_window::largest).ack_interval(), send_window::most_between_ack_requests);
}

}  // namespace
}  // namespace softverbs::transport
