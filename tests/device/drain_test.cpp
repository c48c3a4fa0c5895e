// queue_pair::drain(): everything that was posted completes, and then nothing is in flight any
// more.

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <utility>

#include <gtest/gtest.h>

#include <rdmaxx/rdmaxx.hpp>

#include "byte_pattern.hpp"
#include "completion_waiter.hpp"
#include "connected_pair.hpp"

namespace rdmaxx::device_tests {

namespace {

/// How often the completion of each request was handed over.
class tally {
 public:
  [[nodiscard]] queue_pair::completion_sink sink() {
    return [this](const work_completion& completion) {
      ++seen_[{completion.queue_pair(), completion.id()}];
      ++total_;
    };
  }
  [[nodiscard]] int count(qpn number, wr_id id) const {
    const auto found = seen_.find({number, id});
    return found == seen_.end() ? 0 : found->second;
  }
  [[nodiscard]] int total() const noexcept { return total_; }

 private:
  std::map<std::pair<qpn, wr_id>, int> seen_;
  int total_ = 0;
};

class drain : public ::testing::Test {};

TEST_F(drain, hands_over_every_request_once) {
  constexpr std::uint64_t requests = 20;
  const connected_pair pair;
  const auto memory = pair.a.local_memory(64);
  const auto far = pair.b.shared_memory(64);
  // Sends without a receive are still outstanding when drain() begins.
  const bool sends_wait = device_under_test::get().has(capability::receiver_not_ready);
  for (std::uint64_t i = 0; i < requests; ++i) {
    pair.a.qp.post(recv_wr{.id = wr_id{i}, .into = memory.scatter()}).value();
    if (sends_wait) {
      pair.a.qp.post(send_wr{.id = wr_id{100 + i}, .from = memory.gather()}).value();
    } else {
      pair.a.qp.post(write_wr{.id = wr_id{100 + i}, .from = memory.gather(), .to = far.remote()})
          .value();
    }
  }
  tally completed;

  pair.a.qp.drain(completed.sink()).value();

  for (std::uint64_t i = 0; i < requests; ++i) {
    EXPECT_EQ(completed.count(pair.a.qp.number(), wr_id{i}), 1) << "receive " << i;
    EXPECT_EQ(completed.count(pair.a.qp.number(), wr_id{100 + i}), 1) << "send " << i;
  }
  EXPECT_EQ(completed.total(), 2 * static_cast<int>(requests));
  EXPECT_TRUE(completions_in(pair.a.send_cq).empty());
  EXPECT_TRUE(completions_in(pair.a.recv_cq).empty());
}

TEST_F(drain, can_run_in_another_poll_loop) {
  constexpr std::uint64_t requests = 20;
  const connected_pair pair({.one_cq = true});
  const auto memory = pair.a.local_memory(64);
  for (std::uint64_t i = 0; i < requests; ++i)
    pair.a.qp.post(recv_wr{.id = wr_id{i}, .into = memory.scatter()}).value();
  std::uint64_t seen = 0;
  const auto deadline = std::chrono::steady_clock::now() + patience;

  auto draining = queue_drain::begin(pair.a.qp).value();
  while (!draining.is_done() && std::chrono::steady_clock::now() < deadline) {
    const auto found = pair.a.recv_cq.poll_each(3, [&](const work_completion& completion) {
      if (draining.recognise(completion)) return;
      EXPECT_EQ(completion.id(), wr_id{seen++});
      EXPECT_EQ(completion.status(), wc_status::flushed);
    });
    draining.advance(found.value()).value();
  }

  EXPECT_TRUE(draining.is_done());
  EXPECT_EQ(seen, requests);
  EXPECT_TRUE(completions_in(pair.a.recv_cq).empty());
}

TEST_F(drain, of_an_idle_queue_pair_finds_nothing) {
  const connected_pair pair;
  tally completed;

  pair.a.qp.drain(completed.sink()).value();

  EXPECT_EQ(completed.total(), 0);
}

TEST_F(drain, may_be_repeated) {
  const connected_pair pair;
  const auto memory = pair.a.local_memory(64);
  pair.a.qp.post(recv_wr{.id = wr_id{1}, .into = memory.scatter()}).value();
  tally completed;

  pair.a.qp.drain(completed.sink()).value();
  pair.a.qp.drain(completed.sink()).value();

  EXPECT_EQ(completed.total(), 1);
}

TEST_F(drain, of_a_queue_pair_in_the_error_state_hands_over_what_was_flushed) {
  const connected_pair pair;
  const auto memory = pair.a.local_memory(64);
  pair.a.qp.post(recv_wr{.id = wr_id{1}, .into = memory.scatter()}).value();
  pair.a.qp.to_error().value();
  tally completed;

  pair.a.qp.drain(completed.sink()).value();

  EXPECT_EQ(completed.count(pair.a.qp.number(), wr_id{1}), 1);
  EXPECT_EQ(completed.total(), 1);
}

TEST_F(drain, works_with_full_queues) {
  const connected_pair pair(
      {.capabilities = {.max_send_wr = 8, .max_recv_wr = 8}, .cq_capacity = 256});
  const auto memory = pair.a.local_memory(64);
  const auto granted = pair.a.qp.capabilities();
  for (std::uint64_t i = 0; i < granted.max_recv_wr; ++i) {
    pair.a.qp.post(recv_wr{.id = wr_id{i}, .into = memory.scatter()}).value();
  }
  int sends = 0;
  if (device_under_test::get().has(capability::receiver_not_ready)) {
    for (; sends < static_cast<int>(granted.max_send_wr); ++sends) {
      pair.a.qp.post(send_wr{.from = memory.gather()}).value();
    }
  }
  tally completed;

  pair.a.qp.drain(completed.sink()).value();

  EXPECT_EQ(completed.total(), sends + static_cast<int>(granted.max_recv_wr));
}

TEST_F(drain, works_with_full_queues_whose_completion_queue_has_no_room_for_more) {
  RDMAXX_NEEDS(capability::receiver_not_ready);
  const connected_pair pair(
      {.capabilities = {.max_send_wr = 64, .max_recv_wr = 64}, .cq_capacity = 128, .one_cq = true});
  const auto memory = pair.a.local_memory(64);
  const auto sends = std::min(pair.a.qp.capabilities().max_send_wr, 64U);
  const auto receives = std::min(pair.a.qp.capabilities().max_recv_wr, 64U);
  for (std::uint64_t i = 0; i < receives; ++i)
    pair.a.qp.post(recv_wr{.id = wr_id{i}, .into = memory.scatter()}).value();
  for (std::uint64_t i = 0; i < sends; ++i)
    pair.a.qp.post(send_wr{.id = wr_id{100 + i}, .from = memory.gather()}).value();
  tally completed;

  pair.a.qp.drain(completed.sink()).value();

  EXPECT_EQ(completed.total(), static_cast<int>(sends + receives));
}

TEST_F(drain, ends_while_another_queue_pair_keeps_completing) {
  RDMAXX_NEEDS(capability::manual_connection);
  const connected_pair pair({.one_cq = true});
  const auto memory = pair.a.local_memory(64);
  const auto neighbour =
      pair.a.pd.create_qp({.send_cq = pair.a.send_cq, .recv_cq = pair.a.recv_cq}).value();
  neighbour.to_init({}).value();
  neighbour.to_error().value();
  // In the error state what is posted completes at once, so there is always something to poll.
  const auto end = std::chrono::steady_clock::now() + patience;
  bool is_endless = false;
  const auto keep_completing = [&](const work_completion& completion) {
    if (completion.queue_pair() != neighbour.number()) return;
    is_endless = std::chrono::steady_clock::now() > end;
    if (is_endless) return;
    neighbour.post(recv_wr{.into = memory.scatter()}).value();
    neighbour.to_error().value();  // rxe looks at its receive queue only then
  };
  for (int i = 0; i < 20; ++i) neighbour.post(recv_wr{.into = memory.scatter()}).value();
  neighbour.to_error().value();

  EXPECT_TRUE(pair.a.qp.drain(keep_completing).has_value());

  EXPECT_FALSE(is_endless);
}

TEST_F(drain, hands_over_what_it_finds_of_other_queue_pairs) {
  connected_pair pair({.one_cq = true});
  const auto memory = pair.a.local_memory(64);
  const auto far = pair.b.local_memory(64);
  const auto neighbour =
      pair.a.pd.create_qp({.send_cq = pair.a.send_cq, .recv_cq = pair.a.recv_cq}).value();
  pair.b.qp.post(recv_wr{.into = far.scatter()}).value();
  pair.a.qp.post(send_wr{.id = wr_id{1}, .from = memory.gather()}).value();
  wait_for_success(pair.b.recv_cq);
  tally completed;

  // A queue pair in the reset state has nothing to drain.
  if (device_under_test::get().has(capability::manual_connection)) neighbour.to_init({}).value();
  neighbour.drain(completed.sink()).value();

  EXPECT_EQ(completed.count(pair.a.qp.number(), wr_id{1}), 1);
}

TEST_F(drain, of_a_fresh_queue_pair_returns_at_once) {
  RDMAXX_NEEDS(capability::truthful_state);
  const auto side = unconnected_side(device_under_test::get().open());

  EXPECT_TRUE(side.qp.drain().has_value());

  EXPECT_EQ(side.qp.state().value(), qp_state::reset);
}

TEST_F(drain, works_for_datagrams) {
  RDMAXX_NEEDS(capability::ud);
  const auto side = unconnected_side(device_under_test::get().open(), {.type = qp_type::ud});
  const auto memory = side.local_memory(64);
  side.qp.connect({}).value();
  for (std::uint64_t i = 0; i < 5; ++i) {
    side.qp.post(recv_wr{.id = wr_id{i}, .into = memory.scatter()}).value();
  }
  tally completed;

  side.qp.drain(completed.sink()).value();

  for (std::uint64_t i = 0; i < 5; ++i) EXPECT_EQ(completed.count(side.qp.number(), wr_id{i}), 1);
  EXPECT_EQ(completed.total(), 5);
}

TEST_F(drain, leaves_a_queue_pair_that_can_be_reset_and_connected_again) {
  RDMAXX_NEEDS(capability::manual_connection);
  const connected_pair pair;
  const auto from = pair.a.local_memory(64);
  const auto into = pair.b.local_memory(64);
  fill_pattern(from.bytes(), 1);
  pair.a.qp.drain().value();
  pair.b.qp.drain().value();

  pair.a.qp.reset().value();
  pair.b.qp.reset().value();
  connect_by_hand(pair.a, pair.b);
  pair.b.qp.post(recv_wr{.into = into.scatter()}).value();
  pair.a.qp.post(send_wr{.from = from.gather()}).value();

  wait_for_success(pair.b.recv_cq);
  wait_for_success(pair.a.send_cq);
  EXPECT_TRUE(same_bytes(into.bytes(), from.bytes()));
}

TEST_F(drain, without_a_sink_discards_what_it_finds) {
  const connected_pair pair;
  const auto memory = pair.a.local_memory(64);
  pair.a.qp.post(recv_wr{.into = memory.scatter()}).value();

  EXPECT_TRUE(pair.a.qp.drain().has_value());

  EXPECT_TRUE(completions_in(pair.a.recv_cq).empty());
}

}  // namespace
}  // namespace rdmaxx::device_tests
