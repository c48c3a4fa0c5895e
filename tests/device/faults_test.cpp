// Everything that a peer or a network can do to an operation, on demand: each status arrives once,
// explained, and the queue pair can be used again afterwards.

#include <softverbs/faults.hpp>

#include <array>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <rdmaxx/rdmaxx.hpp>

#include "byte_pattern.hpp"
#include "completion_waiter.hpp"
#include "connected_pair.hpp"

namespace rdmaxx::device_tests {

namespace {

using namespace std::chrono_literals;
using ::testing::HasSubstr;

class injected_faults : public ::testing::Test {
 protected:
  void SetUp() override { RDMAXX_NEEDS(capability::faults); }

  /// 40 packets with checked bytes.
  static void expect_transfer(const connected_pair& pair) {
    const auto from = pair.a.local_memory(40 * 1024);
    const auto to = pair.b.local_memory(40 * 1024);
    fill_pattern(from.bytes(), 5);
    pair.b.qp.post(recv_wr{.id = wr_id{1}, .into = to.scatter()}).value();
    pair.a.qp.post(send_wr{.id = wr_id{2}, .from = from.gather()}).value();
    EXPECT_EQ(wait_for_success(pair.b.recv_cq).byte_len(), to.size());
    wait_for_success(pair.a.send_cq);
    EXPECT_TRUE(same_bytes(to.bytes(), from.bytes()));
  }

  /// As a program recovers: reset, connect again.
  static void reconnect(const connected_pair& pair) {
    for (const auto* side : {&pair.a, &pair.b}) side->qp.reset().value();
    static_cast<void>(completions_in(pair.a.send_cq));
    static_cast<void>(completions_in(pair.b.recv_cq));
    connect_by_hand(pair.a, pair.b);
  }
};

struct expected_status {
  wc_status status;
  error_category category;
  const char* word;  ///< of the hint or the message
};

// What the specification lets a responder or a network cause at a requester.
constexpr std::array at_the_requester{
    expected_status{wc_status::flushed, error_category::gone, "flush"},
    expected_status{wc_status::bad_response, error_category::peer, "response"},
    expected_status{wc_status::remote_invalid_request, error_category::peer, "receive"},
    expected_status{wc_status::remote_access_error, error_category::peer, "rkey"},
    expected_status{wc_status::remote_operation_error, error_category::peer, "peer"},
    expected_status{wc_status::retry_exceeded, error_category::peer, "peer"},
    expected_status{wc_status::rnr_retry_exceeded, error_category::peer, "receive"},
    expected_status{wc_status::remote_aborted, error_category::peer, "peer"},
    expected_status{wc_status::response_timeout, error_category::peer, "respon"},
};

TEST_F(injected_faults, every_status_that_a_peer_can_cause_arrives_once_and_is_explained) {
  const connected_pair pair;
  const auto from = pair.a.local_memory(64);
  const auto to = pair.b.shared_memory(64);
  for (const auto& [status, category, word] : at_the_requester) {
    SCOPED_TRACE(describe(status));
    {
      const auto plan =
          faults::inject({faults::complete_with(status).of(faults::operation::write).nth(1)})
              .value();
      pair.a.qp.post(write_wr{.id = wr_id{7}, .from = from.gather(), .to = to.remote()}).value();
      const auto completion = wait_for_one(pair.a.send_cq);
      EXPECT_EQ(completion.status(), status);
      const auto failure = completion.error();
      EXPECT_EQ(failure.category(), category) << failure;
      EXPECT_THAT(failure.message(), HasSubstr(word));
      EXPECT_EQ(failure.completion()->request, wr_id{7});
      EXPECT_EQ(pair.a.qp.state().value(), qp_state::error);
      EXPECT_EQ(plan.hits(), 1U);
    }
    reconnect(pair);
    expect_transfer(pair);
  }
}

TEST_F(injected_faults, a_plan_counts_its_own_hits_also_when_another_one_covers_it) {
  const context ctx = device_under_test::get().open();
  const auto fails = [&] { return !ctx.alloc_pd(); };
  auto first = faults::inject({faults::fail_with(ENOMEM).call("ibv_alloc_pd").first(2)}).value();
  EXPECT_TRUE(fails() && fails() && !fails());
  EXPECT_EQ(first.hits(), 2U);
  {
    const auto second =
        faults::inject({faults::fail_with(ENOMEM).call("ibv_alloc_pd").first(1)}).value();
    EXPECT_EQ(first.hits(), 2U);
    EXPECT_EQ(second.hits(), 0U);
    EXPECT_TRUE(fails() && !fails());
    EXPECT_EQ(first.hits(), 2U) << "it strikes no more";
    EXPECT_EQ(second.hits(), 1U);
    EXPECT_EQ(first.hits(7), 0U) << "there is no such rule";
  }
  EXPECT_EQ(first.hits(), 2U) << "and does not come back";
  EXPECT_FALSE(fails());
  // Assigned to, it is the other one.
  first = faults::inject({faults::fail_with(ENOMEM).call("ibv_alloc_pd")}).value();
  EXPECT_EQ(first.hits(), 0U);
  EXPECT_TRUE(fails());
  EXPECT_EQ(first.hits(), 1U);
}

TEST_F(injected_faults, every_status_that_a_peer_can_cause_at_a_receive_arrives_once) {
  const connected_pair pair;
  const auto memory = pair.a.local_memory(64);
  const auto to = pair.b.local_memory(64);
  for (const auto status : {wc_status::local_length_error, wc_status::local_qp_operation_error,
                            wc_status::local_access_error, wc_status::flushed}) {
    SCOPED_TRACE(describe(status));
    {
      const auto plan =
          faults::inject({faults::complete_with(status).of(faults::operation::recv)}).value();
      pair.b.qp.post(recv_wr{.id = wr_id{9}, .into = to.scatter()}).value();
      pair.a.qp.post(send_wr{.id = wr_id{7}, .from = memory.gather()}).value();
      const auto completion = wait_for_one(pair.b.recv_cq);
      EXPECT_EQ(completion.status(), status);
      EXPECT_EQ(completion.id(), wr_id{9});
      EXPECT_FALSE(completion.error().message().empty());
    }
    reconnect(pair);
    expect_transfer(pair);
  }
}

TEST_F(injected_faults, minutes_of_retries_pass_in_virtual_time) {
  const connected_pair pair(
      {.connect = {.ack_timeout = ack_timeout::from_exponent(22), .retry_count = 3}});  // 17 s each
  const auto from = pair.a.local_memory(64);
  faults::virtual_time time;
  const auto plan = faults::inject({faults::lose().of(faults::packet::send)}).value();
  pair.a.qp.post(send_wr{.id = wr_id{1}, .from = from.gather()}).value();

  time.advance(60s);
  EXPECT_TRUE(completions_in(pair.a.send_cq).empty());
  time.advance(20s);
  const auto found = completions_in(pair.a.send_cq);
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].status(), wc_status::retry_exceeded);
}

TEST_F(injected_faults, a_receiver_that_is_never_ready_is_given_up) {
  const connected_pair pair(
      {.connect = {.rnr_retry = 3, .min_rnr_timer = rnr_timer::from_code(31)}});  // 492 ms each
  const auto from = pair.a.local_memory(64);
  faults::virtual_time time;
  pair.a.qp.post(send_wr{.id = wr_id{1}, .from = from.gather()}).value();
  time.advance(1400ms);
  EXPECT_TRUE(completions_in(pair.a.send_cq).empty());
  time.advance(200ms);
  const auto found = completions_in(pair.a.send_cq);
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].status(), wc_status::rnr_retry_exceeded);
}

TEST_F(injected_faults, a_bad_network_costs_time_but_no_bytes) {
  const connected_pair pair;
  const auto plan = faults::inject({faults::lose().rate(0.05), faults::duplicate().rate(0.05),
                                    faults::reorder().rate(0.05), faults::corrupt().rate(0.05),
                                    faults::delay(200us).rate(0.05)},
                                   11)
                        .value();
  for (int i = 0; i < 10; ++i) expect_transfer(pair);
  for (std::size_t rule = 0; rule < 5; ++rule) EXPECT_GT(plan.hits(rule), 0U) << rule;
}

TEST_F(injected_faults, a_registration_that_fails_says_why) {
  const connected_pair pair;
  const auto plan = faults::inject({faults::fail_with(ENOMEM).call("ibv_reg_mr").nth(1)}).value();
  std::array<std::byte, 64> memory{};
  const auto failed = pair.a.pd.register_local(memory);
  ASSERT_FALSE(failed.has_value());
  EXPECT_EQ(failed.error(), std::errc::not_enough_memory);
  EXPECT_EQ(failed.error().category(), error_category::resources);
  EXPECT_TRUE(pair.a.pd.register_local(memory).has_value()) << "only the first one fails";
}

TEST_F(injected_faults, a_rule_that_is_wrong_is_refused_with_its_reason) {
  const auto refused = faults::inject({faults::lose().call("ibv_reg_mr")});
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error().category(), error_category::misuse);
  EXPECT_THAT(refused.error().message(), HasSubstr("call= has no meaning"));
}

TEST_F(injected_faults, end_with_their_plan) {
  const connected_pair pair;
  {
    const auto plan = faults::inject({faults::lose()}).value();
  }
  expect_transfer(pair);
}

}  // namespace

}  // namespace rdmaxx::device_tests
