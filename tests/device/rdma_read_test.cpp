// RDMA READ: the peer's bytes arrive here without action of its program.

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

class rdma_read : public ::testing::Test {};

TEST_F(rdma_read, fetches_the_bytes_it_was_aimed_at) {
  const connected_pair pair;
  const auto from = pair.b.shared_memory(3000);
  const auto into = pair.a.local_memory(1000);
  fill_pattern(from.bytes(), 1);

  pair.a.qp.post(read_wr{.id = wr_id{5}, .from = from.remote(1234), .into = into.scatter()})
      .value();

  const auto read = wait_for_success(pair.a.send_cq);
  EXPECT_EQ(read.id(), wr_id{5});
  EXPECT_EQ(read.opcode(), wc_opcode::rdma_read);
  EXPECT_TRUE(same_bytes(into.bytes(), from.bytes().subspan(1234, 1000)));
}

TEST_F(rdma_read, scatters_into_several_elements) {
  RDMAXX_NEEDS(capability::several_read_elements);
  const connected_pair pair;
  const auto from = pair.b.shared_memory(700);
  const auto into = pair.a.local_memory(2000);
  fill_pattern(from.bytes(), 2);
  const std::array parts{into.scatter(into.bytes().subspan(1500, 5)),
                         into.scatter(into.bytes().subspan(0, 600)),
                         into.scatter(into.bytes().subspan(1000, 95))};

  pair.a.qp.post(read_wr{.from = from.remote(), .into = parts}).value();

  wait_for_success(pair.a.send_cq);
  EXPECT_TRUE(same_bytes(into.bytes().subspan(1500, 5), from.bytes().subspan(0, 5)));
  EXPECT_TRUE(same_bytes(into.bytes().subspan(0, 600), from.bytes().subspan(5, 600)));
  EXPECT_TRUE(same_bytes(into.bytes().subspan(1000, 95), from.bytes().subspan(605, 95)));
  EXPECT_TRUE(all_zero(into.bytes().subspan(600, 400)));
}

TEST_F(rdma_read, a_mebibyte_arrives_whole) {
  constexpr std::size_t mebibyte = std::size_t{1} << 20;
  const connected_pair pair;
  const auto from = pair.b.shared_memory(mebibyte);
  const auto into = pair.a.local_memory(mebibyte);
  fill_pattern(from.bytes(), 3);

  pair.a.qp.post(read_wr{.from = from.remote(), .into = into.scatter()}).value();

  wait_for_success(pair.a.send_cq);
  EXPECT_TRUE(same_bytes(into.bytes(), from.bytes()));
}

TEST_F(rdma_read, many_in_flight_complete_in_order_with_their_own_bytes) {
  constexpr std::size_t reads = 48;
  constexpr std::size_t bytes = 8192;
  const connected_pair pair;
  const auto from = pair.b.shared_memory(reads * bytes);
  const auto into = pair.a.local_memory(reads * bytes);
  fill_pattern(from.bytes(), 4);
  for (std::size_t i = 0; i < reads; ++i) {
    pair.a.qp
        .post(read_wr{.id = wr_id{i},
                      .from = from.remote(i * bytes),
                      .into = into.scatter(into.bytes().subspan(i * bytes, bytes))})
        .value();
  }

  const auto completed = wait_for_successes(pair.a.send_cq, reads);

  for (std::size_t i = 0; i < reads; ++i) EXPECT_EQ(completed[i].id(), wr_id{i});
  EXPECT_TRUE(same_bytes(into.bytes(), from.bytes()));
}

TEST_F(rdma_read, a_fenced_send_carries_what_the_read_before_it_brought) {
  const connected_pair pair;
  const auto remote = pair.b.shared_memory(65536);
  const auto local = pair.a.local_memory(65536);
  const auto inbox = pair.b.local_memory(65536);
  for (std::uint64_t round = 1; round <= 8; ++round) {
    fill_pattern(remote.bytes(), round);
    pair.b.qp.post(recv_wr{.into = inbox.scatter()}).value();
    pair.a.qp.post(read_wr{.from = remote.remote(), .into = local.scatter()}).value();
    pair.a.qp.post(send_wr{.from = local.gather(), .flags = send_flag::signaled | send_flag::fence})
        .value();

    wait_for_successes(pair.a.send_cq, 2);
    wait_for_success(pair.b.recv_cq);
    ASSERT_TRUE(same_bytes(inbox.bytes(), pattern(65536, round))) << "round " << round;
  }
}

}  // namespace
}  // namespace rdmaxx::device_tests
