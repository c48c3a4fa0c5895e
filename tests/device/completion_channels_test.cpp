// completion_channel, cq_event: no wake-up is lost, and destruction does not deadlock.

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <thread>
#include <utility>

#include <fcntl.h>
#include <gtest/gtest.h>

#include <rdmaxx/rdmaxx.hpp>

#include "completion_waiter.hpp"
#include "connected_pair.hpp"

namespace rdmaxx::device_tests {

namespace {

using namespace std::chrono_literals;

class completion_channels : public device_test {
 protected:
  /// Completes one write on a's send queue.
  static void write(const connected_pair& pair, const memory_region& from,
                    const memory_region& to) {
    pair.a.qp.post(write_wr{.from = from.gather(), .to = to.remote()}).value();
  }

  static cq_event wait_for_event(const completion_channel& channel) {
    return channel.get_event(patience).value();
  }
};

TEST_F(completion_channels, the_descriptor_does_not_block) {
  const auto channel = ctx.create_completion_channel().value();

  EXPECT_NE(::fcntl(channel.fd(), F_GETFL) & O_NONBLOCK, 0);
}

TEST_F(completion_channels, without_events_nothing_is_there) {
  const auto channel = ctx.create_completion_channel().value();
  const auto start = std::chrono::steady_clock::now();

  EXPECT_FALSE(channel.try_get_event().value().has_value());
  EXPECT_EQ(channel.get_event(0ms).error(), std::errc::timed_out);
  EXPECT_EQ(channel.get_event(100ms).error(), std::errc::timed_out);

  EXPECT_GE(std::chrono::steady_clock::now() - start, 100ms);
}

TEST_F(completion_channels, a_completion_on_an_armed_queue_raises_one_event) {
  const connected_pair pair({.with_channel = true});
  const auto from = pair.a.local_memory(8);
  const auto to = pair.b.shared_memory(8);

  pair.a.send_cq.req_notify().value();
  write(pair, from, to);
  ASSERT_TRUE(wait_readable(pair.a.channel.fd(), patience).value());
  const auto event = wait_for_event(pair.a.channel);

  EXPECT_EQ(event.queue(), pair.a.send_cq);
  wait_for_success(pair.a.send_cq);
  write(pair, from, to);
  wait_for_success(pair.a.send_cq);
  EXPECT_FALSE(pair.a.channel.try_get_event().value().has_value())
      << "the queue was not armed again";
}

TEST_F(completion_channels, a_receive_raises_an_event_at_the_receiver) {
  const connected_pair pair({.with_channel = true});
  const auto from = pair.a.local_memory(8);
  const auto into = pair.b.local_memory(8);
  pair.b.recv_cq.req_notify().value();
  pair.b.qp.post(recv_wr{.into = into.scatter()}).value();

  pair.a.qp.post(send_wr{.from = from.gather()}).value();

  EXPECT_EQ(wait_for_event(pair.b.channel).queue(), pair.b.recv_cq);
  wait_for_success(pair.b.recv_cq);
  wait_for_success(pair.a.send_cq);
}

TEST_F(completion_channels, arming_for_solicited_completions_ignores_others) {
  RDMAXX_NEEDS(capability::solicited_events);
  const connected_pair pair({.with_channel = true});
  const auto from = pair.a.local_memory(8);
  const auto into = pair.b.local_memory(8);
  pair.b.recv_cq.req_notify(notify::solicited).value();
  for (int i = 0; i < 2; ++i) pair.b.qp.post(recv_wr{.into = into.scatter()}).value();

  pair.a.qp.post(send_wr{.from = from.gather()}).value();
  wait_for_success(pair.b.recv_cq);
  EXPECT_EQ(pair.b.channel.get_event(100ms).error(), std::errc::timed_out);
  pair.a.qp
      .post(send_wr{.from = from.gather(), .flags = send_flag::signaled | send_flag::solicited})
      .value();

  EXPECT_EQ(wait_for_event(pair.b.channel).queue(), pair.b.recv_cq);
  wait_for_success(pair.b.recv_cq);
  wait_for_successes(pair.a.send_cq, 2);
}

TEST_F(completion_channels, several_queues_share_a_channel) {
  const connected_pair pair({.with_channel = true});
  const auto from = pair.a.local_memory(8);
  const auto into = pair.a.local_memory(8);
  const auto far = pair.b.local_memory(8);
  pair.a.qp.post(recv_wr{.into = into.scatter()}).value();
  pair.b.qp.post(recv_wr{.into = far.scatter()}).value();
  pair.a.send_cq.req_notify().value();
  pair.a.recv_cq.req_notify().value();

  pair.a.qp.post(send_wr{.from = from.gather()}).value();
  const auto first = wait_for_event(pair.a.channel);
  wait_for_success(pair.b.recv_cq);
  pair.b.qp.post(send_wr{.from = far.gather()}).value();
  const auto second = wait_for_event(pair.a.channel);

  EXPECT_EQ(first.queue(), pair.a.send_cq);
  EXPECT_EQ(second.queue(), pair.a.recv_cq);
  wait_for_success(pair.a.send_cq);
  wait_for_success(pair.a.recv_cq);
}

/// One side of an event-driven ping-pong: waits for an event, arms again, drains, answers each
/// message.
class player {
 public:
  player(const pair_side& side, std::uint64_t rounds) : side_(side), rounds_(rounds) {
    side_.recv_cq.req_notify().value();
    expect_ball();
  }

  void serve() const { side_.qp.post(send_wr{.from = outbox_.gather(), .flags = {}}).value(); }

  /// Returns after the last message.
  void play(bool returns_last) {
    while (caught_ < rounds_) {
      const auto event = side_.channel.get_event(patience);
      if (!event) throw exception(event.error().within("round " + std::to_string(caught_)));
      side_.recv_cq.req_notify().value();
      for (const auto& ball : completions_in(event->queue())) {
        if (!ball) throw exception(ball.error());
        ++caught_;
        expect_ball();
        if (caught_ < rounds_ || returns_last) serve();
      }
    }
  }

 private:
  void expect_ball() const { side_.qp.post(recv_wr{.into = inbox_.scatter()}).value(); }

  const pair_side& side_;
  std::uint64_t rounds_;
  std::uint64_t caught_ = 0;
  owned_region inbox_ = side_.local_memory(8);
  owned_region outbox_ = side_.local_memory(8);
};

TEST_F(completion_channels, draining_after_arming_loses_no_wake_up) {
  constexpr std::uint64_t rounds = 2000;
  const connected_pair pair({.with_channel = true});
  player near(pair.a, rounds);
  player far(pair.b, rounds);
  std::exception_ptr failure;

  {
    const std::jthread other([&] {
      try {
        far.play(true);
      } catch (...) {
        failure = std::current_exception();
      }
    });
    near.serve();
    near.play(false);
  }

  if (failure) std::rethrow_exception(failure);
}

TEST_F(completion_channels, an_event_keeps_its_queue_alive) {
  const auto to = [] {
    connected_pair pair({.with_channel = true});
    const auto from = pair.a.local_memory(8);
    const auto far = pair.b.shared_memory(8);
    pair.a.send_cq.req_notify().value();
    write(pair, from, far);
    return wait_for_event(pair.a.channel);
  }();

  // All other handles are gone; the queue and its parents still exist.
  EXPECT_EQ(completions_in(to.queue()).size(), 1U);
}

TEST_F(completion_channels, destroying_a_queue_while_its_event_is_held_does_not_block) {
  std::optional<cq_event> held;
  {
    connected_pair pair({.with_channel = true});
    const auto from = pair.a.local_memory(8);
    const auto to = pair.b.shared_memory(8);
    pair.a.send_cq.req_notify().value();
    write(pair, from, to);
    held = wait_for_event(pair.a.channel);
  }

  held->acknowledge();

  EXPECT_FALSE(held->queue());
}

TEST_F(completion_channels, a_queue_with_unread_events_can_be_destroyed) {
  for (int i = 0; i < 10; ++i) {
    connected_pair pair({.with_channel = true});
    const auto from = pair.a.local_memory(8);
    const auto to = pair.b.shared_memory(8);
    pair.a.send_cq.req_notify().value();
    write(pair, from, to);
    ASSERT_TRUE(wait_readable(pair.a.channel.fd(), patience).value());
    const auto channel = pair.a.channel;

    pair.a.qp = {};
    pair.a.send_cq = {};
    pair.a.recv_cq = {};

    EXPECT_FALSE(channel.try_get_event().value().has_value())
        << "the events of a queue end with it";
  }
}

TEST_F(completion_channels, a_queue_can_end_while_another_thread_waits_for_its_events) {
  for (int i = 0; i < 10; ++i) {
    connected_pair pair({.with_channel = true});
    const auto from = pair.a.local_memory(8);
    const auto to = pair.b.shared_memory(8);
    const auto channel = pair.a.channel;
    std::atomic<bool> ended = false;
    {
      const std::jthread reader([&] {
        while (!ended) static_cast<void>(channel.get_event(50ms));
      });
      pair.a.send_cq.req_notify().value();
      write(pair, from, to);
      pair.a.qp = {};
      pair.a.send_cq = {};
      pair.a.recv_cq = {};
      ended = true;
    }
  }
}

TEST_F(completion_channels, an_event_moves) {
  const connected_pair pair({.with_channel = true});
  const auto from = pair.a.local_memory(8);
  const auto to = pair.b.shared_memory(8);
  pair.a.send_cq.req_notify().value();
  write(pair, from, to);
  auto first = wait_for_event(pair.a.channel);

  const auto second = std::move(first);

  EXPECT_EQ(second.queue(), pair.a.send_cq);
  EXPECT_FALSE(first.queue());  // NOLINT(bugprone-use-after-move): that is the subject
}

TEST_F(completion_channels, arming_a_queue_without_a_channel_is_harmless_or_an_error_with_a_hint) {
  const auto cq = ctx.create_cq({.capacity = 4}).value();

  const auto armed = cq.req_notify();

  EXPECT_FALSE(cq.channel());
  if (!armed) {
    EXPECT_NE(armed.error().hint().find("without a completion channel"), std::string_view::npos);
  }
}

}  // namespace
}  // namespace rdmaxx::device_tests
