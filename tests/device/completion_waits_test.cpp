// wait_completions(): completions in time, on a channel or by polling, and none is missed.

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <stdexcept>
#include <thread>

#include <gtest/gtest.h>

#include <rdmaxx/rdmaxx.hpp>

#include "completion_waiter.hpp"
#include "connected_pair.hpp"

namespace rdmaxx::device_tests {

namespace {

using namespace std::chrono_literals;

class completion_waits : public ::testing::Test {
 protected:
  /// One side of a ping-pong that waits for each message.
  static void play(const pair_side& side, int rounds, bool serves, spin_policy spin) {
    const auto memory = side.local_memory(8);
    std::array<work_completion, 1> one;
    for (int round = 0; round < rounds; ++round) {
      if (serves) side.qp.post(send_wr{.from = memory.gather(), .flags = {}}).value();
      const auto found = wait_completions(side.recv_cq, one, patience, spin).value();
      if (!found.front()) throw exception(found.front().error());
      // Before the answer that asks for the next one.
      side.qp.post(recv_wr{.into = memory.scatter()}).value();
      if (!serves) side.qp.post(send_wr{.from = memory.gather(), .flags = {}}).value();
    }
  }

  static void ping_pong(const pair_options& options, const spin_policy& spin) {
    const connected_pair pair(options);
    const auto near = pair.a.local_memory(8);
    const auto far = pair.b.local_memory(8);
    pair.a.qp.post(recv_wr{.into = near.scatter()}).value();
    pair.b.qp.post(recv_wr{.into = far.scatter()}).value();
    std::exception_ptr failure;
    {
      const std::jthread other([&] {
        try {
          play(pair.b, 300, false, spin);
        } catch (...) {
          failure = std::current_exception();
        }
      });
      play(pair.a, 300, true, spin);
    }
    if (failure) std::rethrow_exception(failure);
    pair.a.qp.drain().value();  // before the memory of the receives is freed
    pair.b.qp.drain().value();
  }
};

TEST_F(completion_waits, asleep_miss_nothing) {
  ping_pong({.with_channel = true, .one_cq = false}, spin_policy());
}

TEST_F(completion_waits, that_spin_first_miss_nothing) {
  ping_pong({.with_channel = true}, spin_policy(30us));
}

TEST_F(completion_waits, that_back_off_miss_nothing) {
  ping_pong({.with_channel = true}, spin_policy::backing_off(50us));
}

TEST_F(completion_waits, without_a_channel_poll) { ping_pong({}, spin_policy()); }

TEST_F(completion_waits, time_out) {
  const connected_pair pair({.with_channel = true});
  std::array<work_completion, 4> room;
  const auto start = std::chrono::steady_clock::now();

  EXPECT_EQ(wait_completions(pair.a.recv_cq, room, 100ms).error(), std::errc::timed_out);
  EXPECT_GE(std::chrono::steady_clock::now() - start, 100ms);
  const auto late = wait_completion(pair.a.recv_cq, 1ms);

  ASSERT_FALSE(late.has_value());
  EXPECT_TRUE(late.error() == std::errc::timed_out) << late.error();
}

TEST_F(completion_waits, leave_a_channel_whose_queues_can_end_after_many_events) {
  connected_pair pair({.with_channel = true});
  const auto from = pair.a.local_memory(8);
  const auto to = pair.b.shared_memory(8);
  // More events than are acknowledged at once, and some that are left for the end.
  for (int i = 0; i < 100; ++i) {
    pair.a.send_cq.req_notify().value();
    pair.a.qp.post(write_wr{.from = from.gather(), .to = to.remote()}).value();
    ASSERT_TRUE(pair.a.channel.get_event(patience).has_value());
    wait_for_success(pair.a.send_cq);
  }

  pair.a.qp = {};
  pair.a.send_cq = {};  // would wait forever for an unacknowledged event
  pair.a.recv_cq = {};
}

TEST_F(completion_waits, serve_a_consumer) {
  const connected_pair pair({.with_channel = true});
  const auto consumer = cq_consumer::of(pair.a.send_cq).value();
  EXPECT_FALSE(cq_consumer::of(pair.a.send_cq).has_value());
  const auto from = pair.a.local_memory(8);
  const auto to = pair.b.shared_memory(8);
  for (std::uint64_t i = 0; i < 40; ++i)
    pair.a.qp.post(write_wr{.id = wr_id{i}, .from = from.gather(), .to = to.remote()}).value();
  std::uint64_t next = 0;
  spin_policy spin;

  while (next < 40) {
    const auto shown = wait_each(
        consumer.source(), 64,
        [&](const work_completion& c) {
          EXPECT_TRUE(c) << c;
          EXPECT_EQ(c.id(), wr_id{next++});
        },
        patience, spin);
    ASSERT_GT(shown.value(), 0U);
  }
}

}  // namespace
}  // namespace rdmaxx::device_tests
