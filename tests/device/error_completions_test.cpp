// Failures end in a completion that says what failed and which side is at fault.
//
// Devices differ in how they name local failures; where the specification leaves room or a device
// takes it, a test accepts every name that describes the failure.

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <string_view>
#include <vector>

#include <gtest/gtest.h>

#include <rdmaxx/rdmaxx.hpp>

#include "byte_pattern.hpp"
#include "completion_waiter.hpp"
#include "connected_pair.hpp"

namespace rdmaxx::device_tests {

namespace {

using status_list = std::initializer_list<wc_status>;

::testing::AssertionResult one_of(wc_status status, status_list accepted) {
  if (std::ranges::find(accepted, status) != accepted.end()) return ::testing::AssertionSuccess();
  return ::testing::AssertionFailure() << "status " << describe(status) << " was not expected";
}

/// What every failed completion must say.
void expect_explained(const work_completion& completion, const queue_pair& qp, wr_id id) {
  EXPECT_FALSE(completion.is_success());
  const auto failure = completion.error();
  EXPECT_EQ(failure.code(), make_error_code(completion.status()));
  EXPECT_FALSE(failure.hint().empty()) << failure;
  ASSERT_TRUE(failure.completion().has_value());
  EXPECT_EQ(failure.completion()->queue_pair, qp.number());
  EXPECT_EQ(failure.completion()->request, id);
  EXPECT_NE(failure.message().find(describe(completion.status())), std::string::npos) << failure;
}

class error_completions : public ::testing::Test {
 protected:
  static constexpr wr_id failing{77};

  /// The failed completion of a write of 64 bytes to `to`.
  static work_completion failed_write(const connected_pair& pair, remote_address to) {
    const auto from = pair.a.local_memory(64);
    pair.a.qp.post(write_wr{.id = failing, .from = from.gather(), .to = to}).value();
    return wait_for_one(pair.a.send_cq);
  }

  static work_completion failed_read(const connected_pair& pair, remote_address from) {
    const auto into = pair.a.local_memory(64);
    pair.a.qp.post(read_wr{.id = failing, .from = from, .into = into.scatter()}).value();
    return wait_for_one(pair.a.send_cq);
  }

  static void expect_remote_access_error(const connected_pair& pair,
                                         const work_completion& completion) {
    EXPECT_EQ(completion.status(), wc_status::remote_access_error) << completion;
    expect_explained(completion, pair.a.qp, failing);
    EXPECT_EQ(completion.error().category(), error_category::peer);
    EXPECT_NE(completion.error().hint().find("rkey"), std::string_view::npos);
  }
};

TEST_F(error_completions, a_write_with_a_wrong_key_is_refused_by_the_peer) {
  RDMAXX_NEEDS(capability::remote_error_reports);
  const connected_pair pair;
  const auto target = pair.b.shared_memory(64);
  auto wrong = target.remote();
  wrong.key = rkey(wrong.key.value() ^ 0x5a);

  expect_remote_access_error(pair, failed_write(pair, wrong));

  EXPECT_TRUE(all_zero(target.bytes()));
}

TEST_F(error_completions, a_write_beyond_the_region_is_refused_by_the_peer) {
  RDMAXX_NEEDS(capability::remote_error_reports);
  const connected_pair pair;
  const auto target = pair.b.shared_memory(64);

  expect_remote_access_error(pair, failed_write(pair, target.remote() + 1));
}

TEST_F(error_completions, a_write_to_a_region_without_remote_write_is_refused_by_the_peer) {
  RDMAXX_NEEDS(capability::remote_error_reports);
  const connected_pair pair;
  const auto target = pair.b.pd.allocate_shared(unsafe, {.bytes = 64}, access::remote_read).value();

  expect_remote_access_error(pair, failed_write(pair, target.remote()));
}

TEST_F(error_completions, a_write_to_a_deregistered_region_is_refused_by_the_peer) {
  RDMAXX_NEEDS(capability::remote_error_reports);
  const connected_pair pair;
  auto target = pair.b.shared_memory(64);
  const auto place = target.remote();
  target = {};

  expect_remote_access_error(pair, failed_write(pair, place));
}

TEST_F(error_completions, a_write_to_a_region_of_another_domain_is_refused_by_the_peer) {
  RDMAXX_NEEDS(capability::remote_error_reports);
  const connected_pair pair;
  const auto elsewhere = pair.b.ctx.alloc_pd().value();
  const auto target =
      elsewhere.allocate_shared(unsafe, {.bytes = 64}, access::remote_write).value();

  expect_remote_access_error(pair, failed_write(pair, target.remote()));
}

TEST_F(error_completions, a_refused_write_ends_the_connection_at_the_peer_and_changes_nothing) {
  const connected_pair pair;
  const auto target = pair.b.pd.allocate_shared(unsafe, {.bytes = 64}, access::remote_read).value();
  const auto from = pair.a.local_memory(64);
  const auto inbox = pair.b.local_memory(8);
  fill_pattern(from.bytes(), 1);
  pair.b.qp.post(recv_wr{.id = wr_id{3}, .into = inbox.scatter()}).value();

  pair.a.qp.post(write_wr{.from = from.gather(), .to = target.remote()}).value();

  const auto received = wait_for_one(pair.b.recv_cq);
  expect_explained(received, pair.b.qp, wr_id{3});
  EXPECT_TRUE(all_zero(target.bytes()));
}

TEST_F(error_completions, a_read_beyond_the_region_is_refused_by_the_peer) {
  const connected_pair pair;
  const auto target = pair.b.shared_memory(64);

  const auto completion = failed_read(pair, target.remote() + 1);

  expect_explained(completion, pair.a.qp, failing);
  if (device_under_test::get().has(capability::remote_error_reports))
    expect_remote_access_error(pair, completion);
}

TEST_F(error_completions, a_read_from_a_region_without_remote_read_is_refused_by_the_peer) {
  RDMAXX_NEEDS(capability::remote_read_enforced);
  const connected_pair pair;
  const auto target =
      pair.b.pd.allocate_shared(unsafe, {.bytes = 64}, access::remote_write).value();

  const auto completion = failed_read(pair, target.remote());

  expect_explained(completion, pair.a.qp, failing);
  if (device_under_test::get().has(capability::remote_error_reports))
    expect_remote_access_error(pair, completion);
}

TEST_F(error_completions, an_atomic_on_a_region_without_remote_atomic_is_refused_by_the_peer) {
  RDMAXX_NEEDS(capability::atomics);
  const connected_pair pair;
  const auto target = pair.b.pd.allocate_shared(unsafe, {.bytes = 8}, access::remote_write).value();
  const auto old = pair.a.local_memory(8);

  pair.a.qp.post(faa_wr{.id = failing, .at = target.remote(), .add = 1, .into = old.scatter()})
      .value();

  expect_remote_access_error(pair, wait_for_one(pair.a.send_cq));
  EXPECT_TRUE(all_zero(target.bytes()));
}

TEST_F(error_completions, an_atomic_on_an_unaligned_address_is_refused_here_or_by_the_peer) {
  RDMAXX_NEEDS(capability::atomics);
  const connected_pair pair;
  const auto target = pair.b.shared_memory(64);
  const auto old = pair.a.local_memory(8);

  const auto posted = pair.a.qp.post(
      faa_wr{.id = failing, .at = target.remote(4), .add = 1, .into = old.scatter()});

  if (posted) {
    const auto completion = wait_for_one(pair.a.send_cq);
    EXPECT_TRUE(one_of(completion.status(),
                       {wc_status::remote_invalid_request, wc_status::remote_access_error}))
        << completion;
    expect_explained(completion, pair.a.qp, failing);
    EXPECT_EQ(completion.error().category(), error_category::peer);
  } else {
    EXPECT_EQ(posted.error().category(), error_category::misuse);
    EXPECT_FALSE(posted.error().hint().empty());
  }
  EXPECT_TRUE(all_zero(target.bytes()));
}

TEST_F(error_completions, a_queue_pair_that_grants_no_writes_refuses_them) {
  RDMAXX_NEEDS(capability::manual_connection);
  const connected_pair pair({.connect = {.access = access::remote_read}});
  const auto target = pair.b.shared_memory(64);

  const auto completion = failed_write(pair, target.remote());

  EXPECT_TRUE(one_of(completion.status(),
                     {wc_status::remote_invalid_request, wc_status::remote_access_error}))
      << completion;
  expect_explained(completion, pair.a.qp, failing);
}

TEST_F(error_completions, a_send_from_a_deregistered_region_fails_here) {
  const connected_pair pair;
  const auto inbox = pair.b.local_memory(64);
  auto from = pair.a.local_memory(64);
  const std::array stale{from.gather()};
  from = {};

  pair.b.qp.post(recv_wr{.into = inbox.scatter()}).value();
  pair.a.qp.post(send_wr{.id = failing, .from = stale}).value();

  const auto completion = wait_for_one(pair.a.send_cq);
  EXPECT_TRUE(one_of(completion.status(),
                     {wc_status::local_protection_error, wc_status::local_qp_operation_error,
                      wc_status::flushed, wc_status::general_error}))
      << completion;
  expect_explained(completion, pair.a.qp, failing);
  EXPECT_TRUE(all_zero(inbox.bytes()));
}

TEST_F(error_completions, a_send_from_a_region_of_another_domain_fails_here) {
  const connected_pair pair;
  const auto inbox = pair.b.local_memory(64);
  const auto elsewhere = pair.a.ctx.alloc_pd().value();
  const auto from = elsewhere.allocate_local({.bytes = 64}).value();
  fill_pattern(from.bytes(), 1);

  pair.b.qp.post(recv_wr{.into = inbox.scatter()}).value();
  pair.a.qp.post(send_wr{.id = failing, .from = from.gather()}).value();

  const auto completion = wait_for_one(pair.a.send_cq);
  EXPECT_TRUE(one_of(completion.status(),
                     {wc_status::local_protection_error, wc_status::local_qp_operation_error,
                      wc_status::flushed, wc_status::general_error}))
      << completion;
  expect_explained(completion, pair.a.qp, failing);
  EXPECT_TRUE(all_zero(inbox.bytes()));
}

TEST_F(error_completions, a_message_longer_than_the_receive_fails_at_both_ends) {
  const connected_pair pair;
  const auto from = pair.a.local_memory(100);
  const auto into = pair.b.local_memory(200);
  fill_pattern(from.bytes(), 1);

  pair.b.qp.post(recv_wr{.id = wr_id{5}, .into = into.scatter(into.bytes().first(50))}).value();
  pair.a.qp.post(send_wr{.id = failing, .from = from.gather()}).value();

  const auto received = wait_for_one(pair.b.recv_cq);
  EXPECT_TRUE(one_of(received.status(),
                     {wc_status::local_length_error, wc_status::local_qp_operation_error}))
      << received;
  expect_explained(received, pair.b.qp, wr_id{5});
  EXPECT_EQ(received.error().category(), error_category::misuse);
  EXPECT_TRUE(all_zero(into.bytes().subspan(50)));
  if (!device_under_test::get().has(capability::remote_error_reports)) return;
  const auto sent = wait_for_one(pair.a.send_cq);
  EXPECT_TRUE(
      one_of(sent.status(), {wc_status::remote_invalid_request, wc_status::remote_operation_error}))
      << sent;
  expect_explained(sent, pair.a.qp, failing);
  EXPECT_EQ(sent.error().category(), error_category::peer);
}

TEST_F(error_completions, a_peer_that_never_posts_a_receive_exhausts_the_rnr_retries) {
  RDMAXX_NEEDS(capability::receiver_not_ready);
  const connected_pair pair({.connect = {.rnr_retry = 1}});
  const auto from = pair.a.local_memory(8);

  pair.a.qp.post(send_wr{.id = failing, .from = from.gather()}).value();

  const auto completion = wait_for_one(pair.a.send_cq);
  EXPECT_EQ(completion.status(), wc_status::rnr_retry_exceeded) << completion;
  expect_explained(completion, pair.a.qp, failing);
  EXPECT_EQ(completion.error().category(), error_category::peer);
  EXPECT_TRUE(completion.error() == std::errc::timed_out);
  EXPECT_NE(completion.error().hint().find("receive"), std::string_view::npos);
}

TEST_F(error_completions, a_dead_peer_exhausts_the_retries) {
  RDMAXX_NEEDS(capability::retry_limit);
  connected_pair pair(
      {.connect = {.ack_timeout = ack_timeout::from_exponent(14), .retry_count = 1}});
  const auto from = pair.a.local_memory(8);
  pair.b.qp = {};

  pair.a.qp.post(send_wr{.id = failing, .from = from.gather()}).value();

  const auto completion = wait_for_one(pair.a.send_cq);
  EXPECT_EQ(completion.status(), wc_status::retry_exceeded) << completion;
  expect_explained(completion, pair.a.qp, failing);
  EXPECT_EQ(completion.error().category(), error_category::peer);
  EXPECT_TRUE(completion.error() == std::errc::timed_out);
}

TEST_F(error_completions, everything_behind_the_failure_is_flushed_in_order) {
  RDMAXX_NEEDS(capability::remote_error_reports);
  constexpr std::uint64_t behind = 20;
  const connected_pair pair;
  const auto target = pair.b.shared_memory(64);
  const auto from = pair.a.local_memory(64);
  const auto inbox = pair.a.local_memory(8);
  for (std::uint64_t i = 0; i < 3; ++i)
    pair.a.qp.post(recv_wr{.id = wr_id{i}, .into = inbox.scatter()}).value();
  std::vector<send_slot> slots(behind + 1);
  send_list list(slots);
  const std::array element{from.gather()};
  list.push(write_wr{.id = failing, .from = element, .to = target.remote() + 1, .flags = {}});
  for (std::uint64_t i = 0; i < behind; ++i) {
    list.push(write_wr{
        .id = wr_id{i}, .from = element, .to = target.remote(), .flags = send_flag::signaled});
  }

  pair.a.qp.post(list).value();

  // The failed request was not signaled: failures are always reported.
  const auto completed = wait_for(pair.a.send_cq, behind + 1);
  EXPECT_EQ(completed[0].status(), wc_status::remote_access_error) << completed[0];
  EXPECT_EQ(completed[0].id(), failing);
  for (std::uint64_t i = 0; i < behind; ++i) {
    EXPECT_EQ(completed[i + 1].status(), wc_status::flushed) << completed[i + 1];
    EXPECT_EQ(completed[i + 1].id(), wr_id{i});
    EXPECT_EQ(completed[i + 1].error().category(), error_category::gone);
    EXPECT_TRUE(completed[i + 1].error() == std::errc::operation_canceled);
  }
  EXPECT_TRUE(all_zero(target.bytes()));
  pair.a.qp.to_error().value();
  const auto receives = wait_for(pair.a.recv_cq, 3);
  for (std::uint64_t i = 0; i < 3; ++i) {
    EXPECT_EQ(receives[i].status(), wc_status::flushed);
    EXPECT_EQ(receives[i].id(), wr_id{i});
  }
}

TEST_F(error_completions, a_failed_queue_pair_is_in_the_error_state) {
  RDMAXX_NEEDS(capability::remote_error_reports);
  RDMAXX_NEEDS(capability::truthful_state);
  const connected_pair pair;
  const auto target = pair.b.shared_memory(64);

  expect_remote_access_error(pair, failed_write(pair, target.remote() + 1));

  EXPECT_EQ(pair.a.qp.state().value(), qp_state::error);
  EXPECT_NE(describe(pair.a.qp).find("error"), std::string::npos);
}

TEST_F(error_completions, to_error_flushes_everything_in_order) {
  constexpr std::uint64_t receives = 10;
  const connected_pair pair;
  const auto inbox = pair.a.local_memory(8);
  for (std::uint64_t i = 0; i < receives; ++i) {
    pair.a.qp.post(recv_wr{.id = wr_id{i}, .into = inbox.scatter()}).value();
  }

  pair.a.qp.to_error().value();

  const auto flushed = wait_for(pair.a.recv_cq, receives);
  for (std::uint64_t i = 0; i < receives; ++i) {
    EXPECT_EQ(flushed[i].status(), wc_status::flushed) << flushed[i];
    EXPECT_EQ(flushed[i].id(), wr_id{i});
    expect_explained(flushed[i], pair.a.qp, wr_id{i});
  }
}

}  // namespace
}  // namespace rdmaxx::device_tests
