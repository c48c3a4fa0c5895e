// completion_queue: capacity, polling, resizing.

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <gtest/gtest.h>

#include <rdmaxx/rdmaxx.hpp>

#include "completion_waiter.hpp"
#include "connected_pair.hpp"

namespace rdmaxx::device_tests {

namespace {

class completion_queues : public device_test {
 protected:
  /// Fills a's send completion queue with the completions 0 … count-1.
  static void complete_writes(const connected_pair& pair, std::uint64_t count) {
    const auto from = pair.a.local_memory(8);
    const auto to = pair.b.shared_memory(8);
    const auto last = pair.a.local_memory(8);
    for (std::uint64_t i = 0; i < count; ++i) {
      pair.a.qp.post(write_wr{.id = wr_id{i}, .from = from.gather(), .to = to.remote()}).value();
    }
    // The fenced send leaves after the read has completed, so when it arrives, all completions
    // before it are there.
    const auto inbox = pair.b.local_memory(8);
    pair.b.qp.post(recv_wr{.into = inbox.scatter()}).value();
    pair.a.qp.post(read_wr{.id = wr_id{count}, .from = to.remote(), .into = last.scatter()})
        .value();
    pair.a.qp.post(send_wr{.from = from.gather(), .flags = send_flag::fence}).value();
    wait_for_success(pair.b.recv_cq);
  }
};

TEST_F(completion_queues, have_at_least_the_capacity_asked_for) {
  for (const std::uint32_t wanted : {1U, 7U, 64U, 1000U}) {
    EXPECT_GE(ctx.create_cq({.capacity = wanted}).value().capacity(), wanted);
  }
}

TEST_F(completion_queues, are_empty_at_first) {
  EXPECT_TRUE(completions_in(ctx.create_cq({}).value()).empty());
}

TEST_F(completion_queues, polling_fills_only_the_room_given) {
  const connected_pair pair;
  complete_writes(pair, 10);
  std::array<work_completion, 4> room;

  std::vector<std::uint64_t> ids;
  std::vector<std::size_t> sizes;
  for (auto some = pair.a.send_cq.poll(room).value(); !some.empty();
       some = pair.a.send_cq.poll(room).value()) {
    EXPECT_EQ(some.data(), room.data());
    sizes.push_back(some.size());
    for (const auto& one : some) ids.push_back(one.id().value());
  }

  EXPECT_EQ(sizes, (std::vector<std::size_t>{4, 4, 3}));
  EXPECT_EQ(ids, (std::vector<std::uint64_t>{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10}));
}

TEST_F(completion_queues, polling_into_no_room_takes_nothing) {
  const connected_pair pair;
  complete_writes(pair, 1);

  EXPECT_TRUE(pair.a.send_cq.poll({}).value().empty());
  EXPECT_EQ(completions_in(pair.a.send_cq).size(), 2U);
}

TEST_F(completion_queues, resizing_keeps_the_completions_inside) {
  RDMAXX_NEEDS(capability::resize_cq);
  const connected_pair pair({.cq_capacity = 32});
  complete_writes(pair, 20);

  pair.a.send_cq.resize(500).value();

  EXPECT_GE(pair.a.send_cq.capacity(), 500U);
  const auto inside = completions_in(pair.a.send_cq);
  ASSERT_EQ(inside.size(), 21U);
  for (std::uint64_t i = 0; i < 21; ++i) EXPECT_EQ(inside[i].id(), wr_id{i});
  complete_writes(pair, 40);
  EXPECT_EQ(completions_in(pair.a.send_cq).size(), 41U);
}

TEST_F(completion_queues, resizing_to_nothing_or_beyond_the_limit_is_an_error_with_a_hint) {
  const auto cq = ctx.create_cq({.capacity = 16}).value();
  const auto limit = dut.attributes().max_cqe;

  const auto nothing = cq.resize(0);
  const auto too_much = cq.resize(limit + 1);

  ASSERT_FALSE(nothing.has_value());
  EXPECT_NE(nothing.error().hint().find("at least one"), std::string_view::npos) << nothing.error();
  ASSERT_FALSE(too_much.has_value());
  EXPECT_NE(too_much.error().hint().find(std::to_string(limit)), std::string_view::npos)
      << too_much.error();
  EXPECT_GE(cq.capacity(), 16U);
}

TEST_F(completion_queues, a_device_that_cannot_resize_says_so) {
  if (dut.has(capability::resize_cq)) GTEST_SKIP() << "the device lacks nothing: it resizes";
  const auto cq = ctx.create_cq({.capacity = 16}).value();

  const auto resized = cq.resize(64);

  ASSERT_FALSE(resized.has_value());
  EXPECT_EQ(resized.error().category(), error_category::unsupported) << resized.error();
  EXPECT_FALSE(resized.error().hint().empty());
}

TEST_F(completion_queues, a_capacity_of_nothing_is_an_error) {
  const auto cq = ctx.create_cq({.capacity = 0});

  ASSERT_FALSE(cq.has_value());
  EXPECT_EQ(cq.error().category(), error_category::misuse);
  EXPECT_NE(cq.error().hint().find("at least one"), std::string_view::npos) << cq.error();
}

TEST_F(completion_queues, a_capacity_beyond_the_limit_is_an_error_that_says_it) {
  const auto limit = dut.attributes().max_cqe;

  const auto just_too_much = ctx.create_cq({.capacity = limit + 1});
  const auto far_too_much = ctx.create_cq({.capacity = 0xffffffff});

  for (const auto* refused : {&just_too_much, &far_too_much}) {
    ASSERT_FALSE(refused->has_value());
    EXPECT_NE(refused->error().hint().find(std::to_string(limit)), std::string_view::npos)
        << refused->error();
  }
}

TEST_F(completion_queues, every_completion_vector_is_accepted_and_no_other) {
  const auto vectors = static_cast<std::uint32_t>(ctx.native()->num_comp_vectors);
  for (std::uint32_t vector = 0; vector < vectors; ++vector) {
    EXPECT_TRUE(ctx.create_cq({.capacity = 4, .completion_vector = vector}).has_value());
  }

  const auto beyond = ctx.create_cq({.capacity = 4, .completion_vector = vectors});

  ASSERT_FALSE(beyond.has_value());
  EXPECT_EQ(beyond.error().category(), error_category::misuse);
  EXPECT_NE(beyond.error().hint().find(std::to_string(vectors)), std::string_view::npos)
      << beyond.error();
}

TEST_F(completion_queues, a_channel_of_another_context_is_refused) {
  const auto other = dut.open();
  const auto channel = other.create_completion_channel().value();

  const auto cq = ctx.create_cq({.channel = channel});

  ASSERT_FALSE(cq.has_value());
  EXPECT_EQ(cq.error().category(), error_category::misuse);
}

TEST_F(completion_queues, copies_are_the_same_queue) {
  const auto cq = ctx.create_cq({.capacity = 4}).value();
  const auto copy = cq;  // NOLINT(performance-unnecessary-copy-initialization): that is the subject

  EXPECT_EQ(cq, copy);
  EXPECT_EQ(cq.native(), copy.native());
}

}  // namespace
}  // namespace rdmaxx::device_tests
