// send_list, recv_list: many requests with one call, all or a known part of them.

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include <gtest/gtest.h>

#include <rdmaxx/rdmaxx.hpp>

#include "byte_pattern.hpp"
#include "completion_waiter.hpp"
#include "connected_pair.hpp"

namespace rdmaxx::device_tests {

namespace {

constexpr std::size_t count = 16;
constexpr std::size_t bytes = 100;

class work_lists : public ::testing::Test {};

TEST_F(work_lists, every_request_of_a_list_completes_in_order) {
  const connected_pair pair;
  const auto from = pair.a.local_memory(count * bytes);
  const auto to = pair.b.local_memory(count * bytes);
  fill_pattern(from.bytes(), 1);
  std::array<recv_slot, count> recv_slots;
  std::array<send_slot, count> send_slots;
  recv_list receives(recv_slots);
  send_list sends(send_slots);
  std::vector<scatter_element> scatters;
  std::vector<gather_element> gathers;
  for (std::size_t i = 0; i < count; ++i) {
    scatters.push_back(to.scatter(to.bytes().subspan(i * bytes, bytes)));
    gathers.push_back(from.gather(from.bytes().subspan(i * bytes, bytes)));
  }
  for (std::size_t i = 0; i < count; ++i) {
    receives.push(recv_wr{.id = wr_id{i}, .into = std::span(&scatters[i], 1)});
    sends.push(send_wr{.id = wr_id{100 + i}, .from = std::span(&gathers[i], 1)});
  }

  pair.b.qp.post(receives).value();
  pair.a.qp.post(sends).value();

  const auto received = wait_for_successes(pair.b.recv_cq, count);
  const auto sent = wait_for_successes(pair.a.send_cq, count);
  for (std::size_t i = 0; i < count; ++i) {
    EXPECT_EQ(received[i].id(), wr_id{i});
    EXPECT_EQ(sent[i].id(), wr_id{100 + i});
  }
  EXPECT_TRUE(same_bytes(to.bytes(), from.bytes()));
}

TEST_F(work_lists, may_mix_operations) {
  const connected_pair pair;
  const auto local = pair.a.local_memory(3 * bytes);
  const auto remote = pair.b.shared_memory(2 * bytes);
  const auto inbox = pair.b.local_memory(bytes);
  fill_pattern(local.bytes().first(2 * bytes), 2);
  fill_pattern(remote.bytes().last(bytes), 3);
  std::array<send_slot, 3> slots;
  send_list list(slots);
  const std::array written{local.gather(local.bytes().first(bytes))};
  const std::array sent{local.gather(local.bytes().subspan(bytes, bytes))};
  const std::array read{local.scatter(local.bytes().last(bytes))};
  list.push(write_wr{.id = wr_id{1}, .from = written, .to = remote.remote()});
  list.push(read_wr{.id = wr_id{2}, .from = remote.remote(bytes), .into = read});
  list.push(send_wr{.id = wr_id{3}, .from = sent});

  pair.b.qp.post(recv_wr{.into = inbox.scatter()}).value();
  pair.a.qp.post(list).value();

  // iWARP may report a SEND before the READ that was posted before it.
  auto completed = wait_for_successes(pair.a.send_cq, 3);
  std::ranges::sort(completed, {}, &work_completion::id);
  EXPECT_EQ(completed[0].opcode(), wc_opcode::rdma_write);
  EXPECT_EQ(completed[1].opcode(), wc_opcode::rdma_read);
  EXPECT_EQ(completed[2].opcode(), wc_opcode::send);
  wait_for_success(pair.b.recv_cq);
  EXPECT_TRUE(same_bytes(remote.bytes().first(bytes), local.bytes().first(bytes)));
  EXPECT_TRUE(same_bytes(local.bytes().last(bytes), remote.bytes().last(bytes)));
  EXPECT_TRUE(same_bytes(inbox.bytes(), local.bytes().subspan(bytes, bytes)));
}

TEST_F(work_lists, can_be_posted_again_and_refilled) {
  const connected_pair pair;
  const auto from = pair.a.local_memory(8);
  const auto to = pair.b.shared_memory(8);
  const std::array element{from.gather()};
  std::array<send_slot, 4> slots;
  send_list list(slots);
  for (std::uint64_t i = 0; i < 3; ++i)
    list.push(write_wr{.id = wr_id{i}, .from = element, .to = to.remote()});

  pair.a.qp.post(list).value();
  wait_for_successes(pair.a.send_cq, 3);
  pair.a.qp.post(list).value();
  EXPECT_EQ(wait_for_successes(pair.a.send_cq, 3)[2].id(), wr_id{2});
  list.clear();
  list.push(write_wr{.id = wr_id{9}, .from = element, .to = to.remote()});
  pair.a.qp.post(list).value();

  EXPECT_EQ(wait_for_success(pair.a.send_cq).id(), wr_id{9});
  EXPECT_TRUE(completions_in(pair.a.send_cq).empty());
}

TEST_F(work_lists, an_empty_list_posts_nothing) {
  const connected_pair pair;
  std::array<send_slot, 1> send_slots;
  std::array<recv_slot, 1> recv_slots;

  EXPECT_TRUE(pair.a.qp.post(send_list(send_slots)).has_value());
  EXPECT_TRUE(pair.a.qp.post(recv_list(recv_slots)).has_value());

  EXPECT_TRUE(completions_in(pair.a.send_cq).empty());
}

TEST_F(work_lists, the_first_request_not_posted_is_named_and_those_before_it_complete) {
  const connected_pair pair;
  const auto from = pair.a.local_memory(8);
  const auto to = pair.b.shared_memory(8);
  const std::array good{from.gather()};
  const std::vector bad(device_under_test::get().attributes().max_sge + 1U, from.gather());
  std::array<send_slot, 6> slots;
  send_list list(slots);
  for (std::uint64_t i = 0; i < 6; ++i) {
    list.push(write_wr{.id = wr_id{i},
                       .from = i == 4 ? std::span<const gather_element>(bad) : good,
                       .to = to.remote()});
  }

  const auto posted = pair.a.qp.post(list);

  ASSERT_FALSE(posted.has_value());
  EXPECT_EQ(posted.error().first_not_posted(), 4U) << posted.error();
  EXPECT_EQ(posted.error().category(), error_category::misuse);
  const auto completed = wait_for_successes(pair.a.send_cq, 4);
  for (std::uint64_t i = 0; i < 4; ++i) EXPECT_EQ(completed[i].id(), wr_id{i});
}

TEST_F(work_lists, the_first_receive_not_posted_is_named) {
  const connected_pair pair;
  const auto into = pair.b.local_memory(3UZ * 8);
  const auto from = pair.a.local_memory(8);
  const std::array good{into.scatter()};
  const std::vector bad(device_under_test::get().attributes().max_sge + 1U, into.scatter());
  std::array<recv_slot, 3> slots;
  recv_list list(slots);
  list.push(recv_wr{.id = wr_id{0}, .into = good});
  list.push(recv_wr{.id = wr_id{1}, .into = good});
  list.push(recv_wr{.id = wr_id{2}, .into = bad});

  const auto posted = pair.b.qp.post(list);

  ASSERT_FALSE(posted.has_value());
  EXPECT_EQ(posted.error().first_not_posted(), 2U) << posted.error();
  pair.a.qp.post(send_wr{.from = from.gather()}).value();
  pair.a.qp.post(send_wr{.from = from.gather()}).value();
  const auto received = wait_for_successes(pair.b.recv_cq, 2);
  EXPECT_EQ(received[0].id(), wr_id{0});
  EXPECT_EQ(received[1].id(), wr_id{1});
  wait_for_successes(pair.a.send_cq, 2);
}

TEST_F(work_lists, a_list_longer_than_the_send_queue_is_accepted_in_part_and_retryable) {
  const connected_pair pair({.cq_capacity = 1024});
  const auto from = pair.a.local_memory(8);
  const auto to = pair.b.shared_memory(8);
  const std::array element{from.gather()};
  std::vector<send_slot> slots(4UZ * (pair.a.qp.capabilities().max_send_wr + 1U));
  send_list list(slots);
  while (!list.full()) list.push(write_wr{.from = element, .to = to.remote()});

  const auto posted = pair.a.qp.post(list);

  ASSERT_FALSE(posted.has_value());
  EXPECT_EQ(posted.error().category(), error_category::retryable) << posted.error();
  EXPECT_NE(posted.error().hint().find("poll"), std::string_view::npos) << posted.error();
  ASSERT_TRUE(posted.error().first_not_posted().has_value());
  const auto accepted = *posted.error().first_not_posted();
  EXPECT_GE(accepted, pair.a.qp.capabilities().max_send_wr);
  EXPECT_LT(accepted, slots.size());
  wait_for_successes(pair.a.send_cq, accepted);
  EXPECT_TRUE(
      pair.a.qp.post(write_wr{.id = wr_id{1}, .from = element, .to = to.remote()}).has_value());
  EXPECT_EQ(wait_for_success(pair.a.send_cq).id(), wr_id{1});
}

TEST_F(work_lists, inline_if_fits_is_measured_against_the_limit_given_to_the_list) {
  RDMAXX_NEEDS(capability::inline_data);
  pair_options options;
  options.capabilities.max_inline = 32;
  const connected_pair pair(options);
  const auto to = pair.b.local_memory(32);
  const auto sent = pattern(32, 5);
  const std::array element{gather_element::unregistered(sent)};
  std::array<send_slot, 1> slots;
  send_list list(slots, pair.a.qp.max_inline());
  list.push(send_wr{.from = element, .flags = send_flag::signaled | send_flag::inline_if_fits});

  pair.b.qp.post(recv_wr{.into = to.scatter()}).value();
  pair.a.qp.post(list).value();

  wait_for_success(pair.b.recv_cq);
  wait_for_success(pair.a.send_cq);
  EXPECT_TRUE(same_bytes(to.bytes(), sent));
}

}  // namespace
}  // namespace rdmaxx::device_tests
