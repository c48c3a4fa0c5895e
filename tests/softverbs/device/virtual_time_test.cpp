// Time that stands still until the test moves it.

#include <cerrno>
#include <chrono>
#include <cstdint>
#include <vector>

#include <gtest/gtest.h>
#include <infiniband/verbs.h>
#include <softverbs/softverbs.h>

#include "connected_pair.hpp"
#include "owned.hpp"
#include "requests.hpp"
#include "waiting.hpp"

namespace softverbs::device_tests {

namespace {

using namespace std::chrono_literals;

class virtual_time : public ::testing::Test {
 protected:
  void SetUp() override { ::softverbs_time_stop(); }
  void TearDown() override {
    ::softverbs_faults(nullptr);
    ::softverbs_time_resume();
  }

  static void advance(std::chrono::nanoseconds by) {
    ASSERT_EQ(::softverbs_time_advance(static_cast<std::uint64_t>(by.count())), 0);
  }
};

TEST_F(virtual_time, lets_a_silent_peer_fail_after_minutes_in_no_time) {
  // 2^25 · 4.096 us = 137 s, for the first attempt and seven more.
  const connected_pair pair({.timeout = 25, .retry_cnt = 7});
  constexpr auto timeout = std::chrono::nanoseconds(4096L << 25);
  const buffer from(pair.a.domain(), 8);
  ASSERT_EQ(::softverbs_faults("lose"), 0);
  ASSERT_EQ(send(1, {from.sge()}).post(pair.a.qp.get()), 0);

  const auto begin = std::chrono::steady_clock::now();
  advance(8 * timeout - 1s);
  EXPECT_TRUE(completions_in(pair.a.send_cq.get()).empty());
  advance(2s);
  const auto found = completions_in(pair.a.send_cq.get());
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].status, IBV_WC_RETRY_EXC_ERR);
  EXPECT_LT(std::chrono::steady_clock::now() - begin, 60s) << "not eighteen minutes";
}

TEST_F(virtual_time, repeats_exactly) {
  // How often something is sent again is the same in each run.
  std::vector<std::uint64_t> sent;
  for (int round = 0; round < 2; ++round) {
    const connected_pair pair({.timeout = 20});
    const buffer from(pair.a.domain(), 64 * 1024);
    const buffer to(pair.b.domain(), 64 * 1024);
    ASSERT_EQ(post_receive(pair.b.qp.get(), 1, {to.sge()}), 0);
    // The last rule counts what the first one lets through.
    ASSERT_EQ(::softverbs_faults(
                  "seed=5; lose rate=0.3 op=SEND; lose rate=0.3 op=ACK; delay=10us op=SEND"),
              0);
    ASSERT_EQ(send(1, {from.sge()}).post(pair.a.qp.get()), 0);
    for (int i = 0; i < 100'000 && completions_in(pair.a.send_cq.get()).empty(); ++i) advance(1ms);
    for (std::size_t rule = 0; rule < 3; ++rule) sent.push_back(::softverbs_faults_hits(rule));
    wait_for_success(pair.b.recv_cq.get());
  }
  EXPECT_GT(sent[0], 10U);
  EXPECT_EQ(sent[0], sent[3]);
  EXPECT_EQ(sent[1], sent[4]);
  EXPECT_EQ(sent[2], sent[5]);
}

TEST_F(virtual_time, delays_packets_until_it_is_moved) {
  const connected_pair pair;
  const buffer from(pair.a.domain(), 8);
  const buffer to(pair.b.domain(), 8);
  ASSERT_EQ(post_receive(pair.b.qp.get(), 1, {to.sge()}), 0);
  ASSERT_EQ(::softverbs_faults("delay=10s op=SEND first=1; delay=1h op=SEND"), 0);
  ASSERT_EQ(send(1, {from.sge()}).post(pair.a.qp.get()), 0);

  advance(9999ms);
  EXPECT_TRUE(completions_in(pair.b.recv_cq.get()).empty());
  advance(1ms);
  EXPECT_EQ(completions_in(pair.b.recv_cq.get()).size(), 1U);
  EXPECT_EQ(completions_in(pair.a.send_cq.get()).size(), 1U);
}

TEST_F(virtual_time, begins_and_ends_outages) {
  const connected_pair pair({.timeout = 20});
  discard_events(pair.context);
  ASSERT_EQ(::softverbs_faults("port_down at=1m for=10s"), 0);
  const auto port_state = [&] {
    ibv_port_attr port{};
    EXPECT_EQ(ibv_query_port(pair.context, 1, &port), 0);
    return port.state;
  };
  advance(59s);
  EXPECT_EQ(port_state(), IBV_PORT_ACTIVE);
  advance(2s);
  EXPECT_EQ(port_state(), IBV_PORT_DOWN);
  advance(10s);
  EXPECT_EQ(port_state(), IBV_PORT_ACTIVE);
  EXPECT_EQ(::softverbs_faults_hits(0), 1U);
}

TEST_F(virtual_time, runs_on_when_it_is_resumed) {
  const connected_pair pair({.timeout = 8, .retry_cnt = 1});
  const buffer from(pair.a.domain(), 8);
  ASSERT_EQ(::softverbs_faults("lose"), 0);
  ASSERT_EQ(send(1, {from.sge()}).post(pair.a.qp.get()), 0);
  advance(0ns);
  EXPECT_TRUE(completions_in(pair.a.send_cq.get()).empty());
  ::softverbs_time_resume();
  EXPECT_EQ(wait_for_one(pair.a.send_cq.get()).status, IBV_WC_RETRY_EXC_ERR);
  EXPECT_EQ(::softverbs_time_advance(1), EINVAL) << "it runs by itself";
}

}  // namespace

}  // namespace softverbs::device_tests
