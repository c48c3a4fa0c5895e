// Posting: signalling, inline data, and what the device refuses.

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include <rdmaxx/rdmaxx.hpp>

#include "byte_pattern.hpp"
#include "completion_waiter.hpp"
#include "connected_pair.hpp"

namespace rdmaxx::device_tests {

namespace {

constexpr std::uint32_t inline_bytes = 32;

class posting : public ::testing::Test {};

pair_options with_inline() {
  pair_options options;
  options.capabilities.max_inline = inline_bytes;
  return options;
}

TEST_F(posting, only_signaled_requests_are_reported) {
  const connected_pair pair;
  const auto from = pair.a.local_memory(8);
  const auto to = pair.b.shared_memory(8);
  for (std::uint64_t i = 0; i < 12; ++i) {
    pair.a.qp
        .post(write_wr{.id = wr_id{i},
                       .from = from.gather(),
                       .to = to.remote(),
                       .flags = i % 4 == 3 ? send_flags(send_flag::signaled) : send_flags()})
        .value();
  }

  const auto reported = wait_for_successes(pair.a.send_cq, 3);

  EXPECT_EQ(reported[0].id(), wr_id{3});
  EXPECT_EQ(reported[1].id(), wr_id{7});
  EXPECT_EQ(reported[2].id(), wr_id{11});
  EXPECT_TRUE(completions_in(pair.a.send_cq).empty());
}

TEST_F(posting, signal_all_reports_every_request) {
  const connected_pair pair({.signal_all = true});
  const auto from = pair.a.local_memory(8);
  const auto to = pair.b.shared_memory(8);
  for (std::uint64_t i = 0; i < 4; ++i) {
    pair.a.qp.post(write_wr{.id = wr_id{i}, .from = from.gather(), .to = to.remote(), .flags = {}})
        .value();
  }

  const auto reported = wait_for_successes(pair.a.send_cq, 4);

  for (std::uint64_t i = 0; i < 4; ++i) EXPECT_EQ(reported[i].id(), wr_id{i});
}

TEST_F(posting, inline_data_needs_no_registration_and_is_copied_at_once) {
  RDMAXX_NEEDS(capability::inline_data);
  const connected_pair pair(with_inline());
  ASSERT_GE(pair.a.qp.max_inline(), inline_bytes);
  const auto into = pair.b.local_memory(inline_bytes);
  const auto sent = pattern(inline_bytes, 1);
  auto scratch = sent;

  pair.b.qp.post(recv_wr{.into = into.scatter()}).value();
  pair.a.qp
      .post(send_wr{.from = gather_element::unregistered(scratch),
                    .flags = send_flag::signaled | send_flag::inline_data})
      .value();
  std::ranges::fill(scratch, std::byte{0xee});

  EXPECT_EQ(wait_for_success(pair.b.recv_cq).byte_len(), inline_bytes);
  wait_for_success(pair.a.send_cq);
  EXPECT_TRUE(same_bytes(into.bytes(), sent));
}

TEST_F(posting, inline_data_is_gathered_from_several_places) {
  RDMAXX_NEEDS(capability::inline_data);
  const connected_pair pair(with_inline());
  const auto into = pair.b.shared_memory(inline_bytes);
  const auto inbox = pair.b.local_memory(1);
  const auto bytes = pattern(inline_bytes, 2);
  const std::span all(bytes);
  const std::array parts{gather_element::unregistered(all.first(5)),
                         gather_element::unregistered(all.subspan(5, 20)),
                         gather_element::unregistered(all.subspan(25))};

  pair.b.qp.post(recv_wr{.into = inbox.scatter()}).value();
  pair.a.qp
      .post(write_wr{.from = parts,
                     .to = into.remote(),
                     .flags = send_flag::signaled | send_flag::inline_data})
      .value();
  pair.a.qp.post(send_wr{}).value();

  wait_for_successes(pair.a.send_cq, 2);
  wait_for_success(pair.b.recv_cq);
  EXPECT_TRUE(same_bytes(into.bytes(), bytes));
}

TEST_F(posting, inline_if_fits_copies_what_fits_and_leaves_the_rest_to_the_device) {
  RDMAXX_NEEDS(capability::inline_data);
  const connected_pair pair(with_inline());
  const std::size_t limit = pair.a.qp.max_inline();
  const auto small = pattern(inline_bytes, 3);
  const auto large = pair.a.local_memory(limit + 1);
  const auto into = pair.b.local_memory(limit + 1);
  const auto flags = send_flag::signaled | send_flag::inline_if_fits;
  fill_pattern(large.bytes(), 4);

  pair.b.qp.post(recv_wr{.into = into.scatter()}).value();
  pair.a.qp.post(send_wr{.from = gather_element::unregistered(small), .flags = flags}).value();
  EXPECT_EQ(wait_for_success(pair.b.recv_cq).byte_len(), inline_bytes);
  wait_for_success(pair.a.send_cq);
  EXPECT_TRUE(same_bytes(into.bytes().first(inline_bytes), small));

  pair.b.qp.post(recv_wr{.into = into.scatter()}).value();
  pair.a.qp.post(send_wr{.from = large.gather(), .flags = flags}).value();
  EXPECT_EQ(wait_for_success(pair.b.recv_cq).byte_len(), limit + 1);
  wait_for_success(pair.a.send_cq);
  EXPECT_TRUE(same_bytes(into.bytes(), large.bytes()));
}

TEST_F(posting, more_inline_bytes_than_the_queue_pair_has_are_refused_with_its_limit) {
  RDMAXX_NEEDS(capability::inline_data);
  const connected_pair pair(with_inline());
  const auto bytes = pattern(4096, 5);

  const auto posted =
      pair.a.qp.post(send_wr{.from = gather_element::unregistered(bytes),
                             .flags = send_flag::signaled | send_flag::inline_data});

  ASSERT_FALSE(posted.has_value());
  EXPECT_EQ(posted.error().category(), error_category::misuse);
  EXPECT_NE(posted.error().problem().find("4096"), std::string_view::npos) << posted.error();
  EXPECT_NE(posted.error().hint().find("max_inline"), std::string_view::npos) << posted.error();
}

TEST_F(posting, more_elements_than_the_queue_pair_has_are_refused) {
  const connected_pair pair;
  const auto memory = pair.a.local_memory(8);
  const std::size_t too_many = device_under_test::get().attributes().max_sge + 1U;
  const std::vector gathers(too_many, memory.gather());
  const std::vector scatters(too_many, memory.scatter());

  const auto sent = pair.a.qp.post(send_wr{.from = gathers});
  const auto received = pair.a.qp.post(recv_wr{.into = scatters});

  for (const auto* refused : {&sent, &received}) {
    ASSERT_FALSE(refused->has_value());
    EXPECT_EQ(refused->error().category(), error_category::misuse);
    EXPECT_NE(refused->error().problem().find(std::to_string(too_many)), std::string_view::npos)
        << refused->error();
  }
  EXPECT_NE(sent.error().hint().find("max_send_sge"), std::string_view::npos) << sent.error();
  EXPECT_NE(received.error().hint().find("max_recv_sge"), std::string_view::npos)
      << received.error();
}

TEST_F(posting, a_full_receive_queue_is_retryable) {
  connected_pair pair;
  const auto memory = pair.a.local_memory(8);
  const std::size_t far_too_many = 4UZ * (pair.a.qp.capabilities().max_recv_wr + 1U);

  result<void> posted;
  std::size_t accepted = 0;
  while (accepted < far_too_many && (posted = pair.a.qp.post(recv_wr{.into = memory.scatter()})))
    ++accepted;

  ASSERT_FALSE(posted.has_value());
  EXPECT_GE(accepted, pair.a.qp.capabilities().max_recv_wr);
  EXPECT_EQ(posted.error().category(), error_category::retryable) << posted.error();
  EXPECT_NE(posted.error().hint().find("poll"), std::string_view::npos) << posted.error();
}

TEST_F(posting, sends_are_refused_before_the_queue_pair_is_connected_and_the_state_is_named) {
  RDMAXX_NEEDS(capability::manual_connection);
  const auto side = unconnected_side(device_under_test::get().open());

  const auto in_reset = side.qp.post(send_wr{});
  side.qp.to_init({}).value();
  const auto in_init = side.qp.post(send_wr{});

  ASSERT_FALSE(in_reset.has_value());
  EXPECT_EQ(in_reset.error().category(), error_category::misuse);
  EXPECT_NE(in_reset.error().hint().find("reset"), std::string_view::npos) << in_reset.error();
  ASSERT_FALSE(in_init.has_value());
  EXPECT_NE(in_init.error().hint().find("init"), std::string_view::npos) << in_init.error();
}

TEST_F(posting, receives_are_taken_from_the_init_state_on) {
  RDMAXX_NEEDS(capability::manual_connection);
  const auto ctx = device_under_test::get().open();
  const auto a = unconnected_side(ctx);
  const auto b = unconnected_side(ctx);
  const auto into = b.local_memory(8);
  const auto from = a.local_memory(8);
  fill_pattern(from.bytes(), 6);
  const auto endpoint_a = a.qp.endpoint().value();
  const auto endpoint_b = b.qp.endpoint().value();

  b.qp.to_init({}).value();
  b.qp.post(recv_wr{.id = wr_id{1}, .into = into.scatter()}).value();
  b.qp.to_rtr(endpoint_a, {}).value();
  b.qp.to_rts(endpoint_a, {}).value();
  a.qp.connect(endpoint_b).value();
  a.qp.post(send_wr{.from = from.gather()}).value();

  EXPECT_EQ(wait_for_success(b.recv_cq).id(), wr_id{1});
  EXPECT_TRUE(same_bytes(into.bytes(), from.bytes()));
  wait_for_success(a.send_cq);
}

}  // namespace
}  // namespace rdmaxx::device_tests
