// Paths with delay, in virtual time: how fast the window follows, and that nothing is sent twice.

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>

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

constexpr std::size_t message_bytes = std::size_t{1024} * 1024;
constexpr std::size_t mtu_bytes = 4096;
constexpr std::size_t packets_per_message = message_bytes / mtu_bytes;

class long_path : public ::testing::Test {
 protected:
  void SetUp() override { ::softverbs_time_stop(); }
  void TearDown() override {
    ::softverbs_faults(nullptr);
    ::softverbs_time_resume();
  }

  static void advance(std::chrono::nanoseconds by) {
    ASSERT_EQ(::softverbs_time_advance(static_cast<std::uint64_t>(by.count())), 0);
  }
  /// How long it takes until that many requests are complete.
  std::chrono::milliseconds time_for(std::size_t requests) {
    std::size_t done = 0;
    std::chrono::milliseconds passed{};
    while (passed < 60s) {
      for (const auto& each : completions_in(pair_.a.send_cq.get())) {
        EXPECT_EQ(each.status, IBV_WC_SUCCESS);
        ++done;
      }
      if (done >= requests) break;
      advance(1ms);
      passed += 1ms;
    }
    EXPECT_EQ(done, requests);
    return passed;
  }
  void post_writes(std::size_t count, std::size_t bytes = message_bytes) const {
    for (std::size_t i = 0; i < count; ++i) {
      ASSERT_EQ(write(i, {from_.sge(0, bytes)}, to_.address(), to_.rkey()).post(pair_.a.qp.get()),
                0);
    }
  }
  static void set_faults(const std::string& plan) {
    ASSERT_EQ(::softverbs_faults(plan.c_str()), 0);
  }

  connected_pair pair_{{.mtu = IBV_MTU_4096, .timeout = 20}};
  buffer from_{pair_.a.domain(), message_bytes};
  buffer to_{pair_.b.domain(), message_bytes};
};

class long_path_of : public long_path, public ::testing::WithParamInterface<int> {};

TEST_P(long_path_of, milliseconds_is_filled_by_writes_and_sees_no_packet_twice) {
  // The second rule only counts.
  set_faults("delay=" + std::to_string(GetParam()) + "ms op=ACK; delay=1us op=WRITE");
  constexpr std::size_t messages = 64;
  post_writes(messages);
  // Four largest windows. A quarter of a megabyte in each round trip would take 256 of them.
  EXPECT_LT(time_for(messages), 40 * (GetParam() + 1) * 1ms);
  EXPECT_EQ(::softverbs_faults_hits(1), messages * packets_per_message);
}

INSTANTIATE_TEST_SUITE_P(delays, long_path_of, ::testing::Values(0, 1, 5, 20, 100));

TEST_F(long_path, is_filled_by_reads_which_are_asked_for_once) {
  set_faults("delay=20ms op=READ; delay=1us op=READ_RESPONSE");
  constexpr std::size_t messages = 64;
  for (std::size_t i = 0; i < messages; ++i) {
    ASSERT_EQ(read(i, {from_.sge()}, to_.address(), to_.rkey()).post(pair_.a.qp.get()), 0);
  }
  EXPECT_LT(time_for(messages), 40 * 21ms);
  EXPECT_EQ(::softverbs_faults_hits(1), messages * packets_per_message);
}

TEST_F(long_path, is_probed_with_one_packet_when_the_last_one_was_lost) {
  // A first message, so that the round trip is known: twenty milliseconds.
  set_faults("delay=20ms op=ACK");
  post_writes(1, 4 * mtu_bytes);
  static_cast<void>(time_for(1));
  set_faults("lose op=WRITE nth=4; delay=20ms op=ACK; delay=1us op=WRITE");
  post_writes(1, 4 * mtu_bytes);
  advance(29ms);
  EXPECT_EQ(::softverbs_faults_hits(2), 3U) << "not before an answer could have come";
  EXPECT_GT(time_for(1), 0ms);
  EXPECT_EQ(::softverbs_faults_hits(0), 1U);
  EXPECT_LE(::softverbs_faults_hits(2), 8U) << "three, then one, then what it did not answer";
}

TEST_F(long_path, whose_answers_are_late_once_sees_single_packets_again) {
  set_faults("delay=5ms op=ACK");
  post_writes(4);
  static_cast<void>(time_for(4));
  // Far later than was ever seen, for one message: nothing is lost.
  set_faults("delay=150ms op=ACK; delay=1us op=WRITE");
  post_writes(8);
  static_cast<void>(time_for(8));
  const auto sent = ::softverbs_faults_hits(1);
  EXPECT_GT(sent, 8 * packets_per_message) << "the peer was probed";
  EXPECT_LE(sent, 8 * packets_per_message + 16);
}

}  // namespace

}  // namespace softverbs::device_tests
