// Streams that share a receive_pool, as on a shared receive queue, and a send_pool.

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <random>
#include <span>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include <rdmaxx/stream/protocol_engine.hpp>

#include "unit/stream/engine_pipe.hpp"
#include "unit/stream/engine_texts.hpp"

using namespace rdmaxx;
using namespace rdmaxx::stream_protocol;
using namespace rdmaxx_test;

namespace {

constexpr std::size_t payload = 64 - frame_header_bytes;
constexpr receive_window shared_window{.buffers = 4, .buffer_bytes = 64, .growth = 6};
constexpr receive_window peers_window{.buffers = 8, .buffer_bytes = 64};

/// Streams of one group, each with a peer that has everything of its own.
class group {
 public:
  struct sizes {
    std::uint32_t streams = 2;
    std::uint32_t spare = 8;
    std::size_t send_buffers = 4;
    receive_window peer = peers_window;
  };

  explicit group(sizes of)
      : spare_(of.spare),
        receives_(std::make_shared<receive_queue>(shared_window, of.streams, of.spare)),
        sends_(std::make_shared<send_buffers>(send_ring{.slots = of.send_buffers},
                                              send_pool::use::by_many)) {
    for (std::uint32_t i = 0; i < of.streams; ++i) {
      streams.emplace_back(terms_of(shared_window, of.peer), receives_, sends_, 4);
      peers.emplace_back(terms_of(of.peer, shared_window), send_ring{.slots = 8});
    }
  }

  [[nodiscard]] std::size_t size() const { return streams.size(); }
  [[nodiscard]] const receive_pool& receives() const { return receives_->pool; }
  [[nodiscard]] const send_pool& sends() const { return sends_->pool; }
  /// All buffers that a device knows of.
  [[nodiscard]] std::size_t posted() const { return receives_->posted.size(); }

  void pump_all() {
    for (std::size_t i = 0; i < size(); ++i) pump(streams[i], peers[i]);
  }
  void expect_nothing_lost() const {
    for (std::size_t i = 0; i < size(); ++i) {
      EXPECT_FALSE(streams[i].receiver_not_ready || peers[i].receiver_not_ready) << i;
      EXPECT_FALSE(streams[i].engine.failure() || peers[i].engine.failure()) << i;
    }
  }
  void expect_nothing_borrowed() const {
    EXPECT_EQ(receives().spare(), spare_);
    EXPECT_EQ(sends().available(), sends().size());
    EXPECT_EQ(posted(), receives().size());
    for (const auto& each : streams) EXPECT_EQ(each.engine.receiving().borrowed(), 0U);
  }

  std::deque<engine_side> streams{};
  std::deque<engine_side> peers{};

 private:
  std::uint32_t spare_;
  std::shared_ptr<receive_queue> receives_;
  std::shared_ptr<send_buffers> sends_;
};

/// Writes while there is room and the peer accepts it.
std::size_t write_without_reader(engine_side& from, engine_side& to) {
  const auto text = pattern(1000 * payload);
  std::size_t written = 0;
  for (;;) {
    from.engine.sending().announce(text.size() - written);
    const auto count = from.engine.sending().write(bytes_of(text).subspan(written));
    pump(from, to);
    if (count == 0) return written;
    written += count;
  }
}

}  // namespace

// --- receive buffers -----------------------------------------------------------------------------

TEST(stream_sharing, any_buffer_takes_the_next_frame_of_any_stream) {
  group all({.streams = 3, .spare = 0});
  for (int round = 0; round < 50; ++round) {
    std::vector<std::string> texts;
    for (std::size_t i = 0; i < all.size(); ++i) {
      texts.push_back(pattern(10 + i) + std::to_string(round));
      write_all(all.peers[i].engine, texts.back());
    }
    all.pump_all();
    for (std::size_t i = all.size(); i-- > 0;)
      EXPECT_EQ(read_all(all.streams[i].engine), texts[i]) << i;
    all.pump_all();
  }
  all.expect_nothing_lost();
  all.expect_nothing_borrowed();
}

TEST(stream_sharing, a_busy_peer_gets_spare_buffers_as_far_as_its_window_grows) {
  group all({.spare = 8});
  write_without_reader(all.peers[0], all.streams[0]);
  EXPECT_EQ(all.streams[0].engine.receiving().available(),
            std::size_t{shared_window.most_credits()} * payload);
  EXPECT_EQ(all.streams[0].engine.receiving().borrowed(), shared_window.growth);
  EXPECT_EQ(all.receives().spare(), 2U);

  write_without_reader(all.peers[1], all.streams[1]);
  EXPECT_EQ(all.streams[1].engine.receiving().available(),
            std::size_t{shared_window.credits() + 2} * payload)
      << "what the other one has left";
  EXPECT_EQ(all.receives().spare(), 0U);
  all.expect_nothing_lost();
}

TEST(stream_sharing, without_spare_buffers_each_stream_still_has_its_own) {
  group all({.spare = 6});
  write_without_reader(all.peers[0], all.streams[0]);
  ASSERT_EQ(all.receives().spare(), 0U);
  for (int i = 0; i < 100; ++i) {
    ASSERT_EQ(all.peers[1].engine.sending().write(bytes_of(pattern(payload))), payload) << i;
    all.pump_all();
    ASSERT_EQ(read_all(all.streams[1].engine).size(), payload) << i;
  }
  all.expect_nothing_lost();
}

TEST(stream_sharing, after_a_burst_an_idle_stream_keeps_nothing) {
  group all({});
  auto& sender = all.peers[0].engine.sending();
  const auto text = pattern(40 * payload + 7);
  std::size_t written = 0;
  std::string read;
  std::uint32_t most = 0;
  while (read.size() != text.size()) {
    const auto before = read.size();
    sender.announce(text.size() - written);
    written += sender.write(bytes_of(text).subspan(written));
    all.pump_all();
    most = std::max(most, all.streams[0].engine.receiving().borrowed());
    read += read_all(all.streams[0].engine);
    ASSERT_LT(before, read.size());
  }
  EXPECT_EQ(read, text);
  EXPECT_GT(most, 0U);
  all.pump_all();
  all.expect_nothing_lost();
  all.expect_nothing_borrowed();
}

TEST(stream_sharing, a_peer_that_keeps_asking_gets_no_more_than_the_growth) {
  group all({.spare = 20});
  auto& victim = all.streams[0];
  std::uint32_t sequence = 0;
  std::uint32_t known = shared_window.credits();
  std::uint8_t acknowledged = 0;
  for (int i = 0; i < 100; ++i) {
    while (sequence != known) {
      ASSERT_TRUE(victim
                      .arrive(forged({.acknowledged = acknowledged,
                                      .wanted = 255,
                                      .sequence = sequence++,
                                      .granted = peers_window.credits()},
                                     1))
                      .has_value());
    }
    if (i % 3 == 0) read_all(victim.engine);
    while (victim.post_receive()) {
    }
    while (const auto frame = victim.engine.next_send()) {
      known = header_of(*frame).granted;
      ++acknowledged;
      victim.engine.sending().sent_up_to(frame->id);
    }
    ASSERT_EQ(victim.engine.receiving().borrowed(), shared_window.growth) << i;
    ASSERT_EQ(all.receives().spare(), 14U) << i;
  }
  EXPECT_GT(sequence, 100U);
}

TEST(stream_sharing, unused_grants_are_returned_with_the_peers_fin) {
  group all({});
  all.peers[0].engine.sending().announce(20 * payload);
  write_all(all.peers[0].engine, pattern(2 * payload));
  all.pump_all();
  EXPECT_GT(all.streams[0].engine.receiving().borrowed(), 0U);
  read_all(all.streams[0].engine);
  all.peers[0].engine.sending().announce(0);
  all.pump_all();
  EXPECT_GT(all.streams[0].engine.receiving().borrowed(), 0U) << "the peer may still use them";

  all.peers[0].engine.sending().shutdown();
  all.pump_all();

  EXPECT_TRUE(all.streams[0].engine.receiving().at_end());
  all.expect_nothing_borrowed();
  for (int i = 0; i < 20; ++i) {  // the other direction goes on
    write_all(all.streams[0].engine, pattern(payload));
    all.pump_all();
    EXPECT_EQ(read_all(all.peers[0].engine).size(), payload);
  }
  all.expect_nothing_lost();
}

TEST(stream_sharing, buffers_that_were_not_granted_yet_are_returned_when_no_longer_needed) {
  group all({});
  auto& victim = all.streams[0];
  const auto tell = [&](std::uint32_t sequence, std::uint8_t wanted) {
    return victim.arrive(
        forged({.wanted = wanted, .sequence = sequence, .granted = peers_window.credits()}, 1));
  };
  ASSERT_TRUE(tell(0, 2).has_value());
  while (victim.post_receive()) {
  }
  EXPECT_FALSE(victim.send()) << "not due: the peer may still send one";
  EXPECT_EQ(victim.engine.receiving().borrowed(), 1U);
  ASSERT_TRUE(victim.engine.receiving().available() == 1);
  read_all(victim.engine);
  ASSERT_TRUE(tell(1, 0).has_value());
  read_all(victim.engine);
  while (victim.post_receive()) {
  }
  EXPECT_TRUE(victim.send());
  EXPECT_EQ(victim.engine.receiving().borrowed(), 0U);
}

TEST(stream_sharing, a_reader_that_has_stopped_gives_back_and_borrows_nothing) {
  group all({});
  write_without_reader(all.peers[0], all.streams[0]);
  ASSERT_GT(all.streams[0].engine.receiving().borrowed(), 0U);
  all.streams[0].engine.receiving().shutdown();
  all.pump_all();
  all.expect_nothing_borrowed();
  all.expect_nothing_lost();

  auto& other = all.streams[1];  // its peer does not know yet
  other.engine.receiving().shutdown();
  ASSERT_TRUE(other.arrive(forged({.wanted = 255, .granted = peers_window.credits()}, 1)));
  while (other.post_receive() || other.send()) {
  }
  EXPECT_EQ(other.engine.receiving().borrowed(), 0U);
}

// --- send buffers --------------------------------------------------------------------------------

TEST(stream_sharing, a_stream_waits_for_send_buffers_that_others_have) {
  group all({.send_buffers = 4});
  write_all(all.streams[0].engine, pattern(4 * payload));
  auto& waiting = all.streams[1].engine.sending();
  EXPECT_FALSE(waiting.can_write() || waiting.can_write_in_place());
  EXPECT_TRUE(waiting.waits_for_pool());
  EXPECT_FALSE(waiting.waits_for_credits());
  EXPECT_EQ(waiting.write(bytes_of("x")), 0U);
  EXPECT_EQ(waiting.write_in_place(bytes_of("x"), 0), 0U);
  EXPECT_TRUE(waiting.check().has_value());

  pump(all.streams[0], all.peers[0]);

  EXPECT_TRUE(waiting.can_write());
  EXPECT_FALSE(waiting.waits_for_pool());
  write_all(all.streams[1].engine, "x");
}

TEST(stream_sharing, a_peer_that_does_not_read_keeps_one_send_buffer) {
  group all({.send_buffers = 4});
  write_without_reader(all.streams[0], all.peers[0]);
  EXPECT_EQ(all.sends().available(), 3U);
  const auto& stuck = all.streams[0].engine.sending();
  EXPECT_FALSE(stuck.can_write());
  EXPECT_TRUE(stuck.waits_for_credits());
  EXPECT_FALSE(stuck.waits_for_pool());
  EXPECT_EQ(all.streams[0].engine.statistics().credit_stalls, 1U);
  for (int i = 0; i < 100; ++i) {
    ASSERT_EQ(all.streams[1].engine.sending().write(bytes_of(pattern(4 * payload))), 3 * payload);
    all.pump_all();
    ASSERT_EQ(read_all(all.peers[1].engine).size(), 3 * payload);
    all.pump_all();
  }
  read_all(all.peers[0].engine);
  all.pump_all();
  EXPECT_TRUE(stuck.can_write());
  EXPECT_FALSE(stuck.waits_for_credits());
}

TEST(stream_sharing, many_peers_that_do_not_read_keep_at_most_half_of_the_send_buffers) {
  group all({.streams = 8, .send_buffers = 8});
  for (std::size_t i = 1; i < all.size(); ++i) write_without_reader(all.streams[i], all.peers[i]);
  EXPECT_EQ(all.sends().available(), 4U);
  for (int i = 0; i < 100; ++i) {
    write_all(all.streams[0].engine, pattern(4 * payload));
    all.pump_all();
    ASSERT_EQ(read_all(all.peers[0].engine).size(), 4 * payload);
    all.pump_all();
  }
}

TEST(stream_sharing, a_stream_borrows_one_send_buffer_more_than_it_has_credits_for) {
  group all({.send_buffers = 8, .peer = {.buffers = 4, .buffer_bytes = 64}});
  EXPECT_EQ(all.streams[0].engine.sending().write(bytes_of(pattern(8 * payload))), 3 * payload);
  EXPECT_EQ(all.sends().available(), 5U);
  EXPECT_FALSE(all.streams[0].engine.sending().can_write());
}

// --- the end -------------------------------------------------------------------------------------

TEST(stream_sharing, a_stream_that_leaves_returns_everything) {
  group all({.send_buffers = 6});
  write_without_reader(all.peers[0], all.streams[0]);
  auto& leaving = all.streams[0];
  write_all(leaving.engine, pattern(2 * payload));
  ASSERT_TRUE(leaving.send());  // one is under way, the other one is not
  EXPECT_EQ(all.sends().available(), 4U);
  EXPECT_LT(all.receives().spare(), 8U);

  leaving.engine.connection_lost();
  leaving.engine.leave();
  leaving.engine.leave();

  EXPECT_EQ(all.sends().available(), 6U);
  EXPECT_EQ(all.receives().spare(), 8U);
  EXPECT_TRUE(all.receives().has_unposted());
  EXPECT_FALSE(leaving.post_receive()) << "others do that";
  while (all.streams[1].post_receive()) {
  }
  all.expect_nothing_borrowed();
}

TEST(stream_sharing, a_stream_that_fails_leaves_its_buffers_to_the_others) {
  group all({.spare = 0});
  ASSERT_FALSE(all.streams[0].arrive(std::vector<std::byte>(3)).has_value());
  write_all(all.peers[0].engine, pattern(2 * payload));
  while (all.peers[0].send() && all.peers[0].deliver_to(all.streams[0])) {
  }
  EXPECT_TRUE(all.receives().has_unposted());
  write_all(all.peers[1].engine, "x");
  pump(all.streams[1], all.peers[1]);
  EXPECT_FALSE(all.receives().has_unposted());
  EXPECT_EQ(all.posted(), all.receives().size() - 1);
  EXPECT_EQ(read_all(all.streams[1].engine), "x");
}

// --- any order -----------------------------------------------------------------------------------

TEST(stream_sharing, no_frame_finds_its_receiver_not_ready_whatever_the_order) {
  for (std::uint32_t seed = 0; seed < 40; ++seed) {
    std::mt19937 random(seed);
    const auto below = [&random](std::size_t limit) { return random() % limit; };
    group all({.streams = 2,
               .spare = static_cast<std::uint32_t>(below(10)),
               .send_buffers = 2 + below(6),
               .peer = {.buffers = 3 + static_cast<std::uint32_t>(below(4)), .buffer_bytes = 64}});
    const auto text = pattern(20'000);
    std::vector<std::string> read_here(all.size());
    std::vector<std::string> read_there(all.size());
    const auto write = [&](engine_side& side) {
      const auto position = side.engine.sending().written_position();
      const auto rest = bytes_of(text).subspan(position);
      const auto part = rest.first(std::min(rest.size(), 1 + below(6 * payload)));
      side.engine.sending().announce(part.size());
      static_cast<void>(side.engine.sending().write(part));
      if (below(2) == 0) side.engine.sending().announce(0);
    };
    for (int step = 0; step < 4000; ++step) {
      const auto i = below(all.size());
      const bool is_here = below(2) == 0;
      auto& one = is_here ? all.streams[i] : all.peers[i];
      auto& other = is_here ? all.peers[i] : all.streams[i];
      switch (below(9)) {
        case 0:
        case 1:
          write(one);
          break;
        case 2:
          while (one.send()) {
          }
          break;
        case 3:
          while (one.land_at(other)) {
          }
          break;
        case 4:
          one.take_landed();
          break;
        case 5:
          if (below(4) == 0) one.post_receive();
          break;
        case 6:
          one.complete_sends();
          break;
        case 7:
          if (below(2) == 0) break;
          while (one.post_receive() || one.send()) {
          }
          break;
        default:
          (is_here ? read_here : read_there)[i] += read_all(one.engine);
          break;
      }
      ASSERT_FALSE(one.receiver_not_ready || other.receiver_not_ready)
          << "seed " << seed << " step " << step;
    }
    for (bool moved = true; moved;) {
      moved = false;
      for (std::size_t i = 0; i < all.size(); ++i) {
        all.streams[i].engine.sending().announce(0);
        all.peers[i].engine.sending().announce(0);
      }
      all.pump_all();
      for (std::size_t i = 0; i < all.size(); ++i) {
        const auto here = read_all(all.streams[i].engine);
        const auto there = read_all(all.peers[i].engine);
        moved = moved || !here.empty() || !there.empty();
        read_here[i] += here;
        read_there[i] += there;
      }
    }
    for (std::size_t i = 0; i < all.size(); ++i) {
      EXPECT_EQ(read_here[i],
                std::string_view(text).substr(0, all.peers[i].engine.sending().written_position()));
      EXPECT_EQ(read_there[i], std::string_view(text).substr(
                                   0, all.streams[i].engine.sending().written_position()));
      all.streams[i].engine.sending().shutdown();
      all.peers[i].engine.sending().shutdown();
    }
    all.pump_all();
    all.expect_nothing_lost();
    all.expect_nothing_borrowed();
  }
}
