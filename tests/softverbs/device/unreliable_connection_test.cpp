// UC: messages of many packets without acknowledgements.

#include <cerrno>
#include <cstddef>
#include <cstdint>

#include <endian.h>
#include <gtest/gtest.h>
#include <infiniband/verbs.h>

#include "connected_pair.hpp"
#include "device/byte_pattern.hpp"
#include "owned.hpp"
#include "requests.hpp"
#include "waiting.hpp"

namespace softverbs::device_tests {

namespace {

using rdmaxx::device_tests::all_zero;
using rdmaxx::device_tests::fill_pattern;
using rdmaxx::device_tests::same_bytes;

class unreliable_connection : public testing::Test {
 protected:
  void SetUp() override { fill_pattern(here_.bytes(), 1); }

  void send_to_b(std::uint64_t id, std::size_t offset, std::size_t bytes) {
    ASSERT_EQ(send(id, {here_.sge(offset, bytes)}).post(pair_.a.qp.get()), 0);
    EXPECT_EQ(wait_for_success(pair_.a.send_cq.get()).wr_id, id);
  }

  connected_pair pair_{pair_options{.type = IBV_QPT_UC}};
  buffer here_{pair_.a.domain(), 20000};
  buffer there_{pair_.b.domain(), 20000};
};

TEST_F(unreliable_connection, messages_of_many_packets) {
  ASSERT_EQ(post_receive(pair_.b.qp.get(), 1, {there_.sge(0, 10000)}), 0);
  send_to_b(2, 0, 9999);
  const auto got = wait_for_success(pair_.b.recv_cq.get());
  EXPECT_EQ(got.byte_len, 9999U);
  EXPECT_TRUE(same_bytes(there_.bytes(0, 9999), here_.bytes(0, 9999)));

  ASSERT_EQ(post_receive(pair_.b.qp.get(), 3, {}), 0);
  ASSERT_EQ(write(4, {here_.sge(0, 8000)}, there_.address(10000), there_.rkey())
                .imm(0xabc)
                .post(pair_.a.qp.get()),
            0);
  EXPECT_EQ(wait_for_success(pair_.a.send_cq.get()).opcode, IBV_WC_RDMA_WRITE);
  const auto told = wait_for_success(pair_.b.recv_cq.get());
  EXPECT_EQ(told.opcode, IBV_WC_RECV_RDMA_WITH_IMM);
  EXPECT_EQ(told.byte_len, 8000U);
  EXPECT_EQ(be32toh(told.imm_data), 0xabcU);
  EXPECT_TRUE(same_bytes(there_.bytes(10000, 8000), here_.bytes(0, 8000)));
}

TEST_F(unreliable_connection, a_message_that_meets_no_receive_is_lost_alone) {
  send_to_b(1, 0, 5000);
  ASSERT_EQ(post_receive(pair_.b.qp.get(), 2, {there_.sge()}), 0);
  send_to_b(3, 5000, 5000);

  const auto got = wait_for_success(pair_.b.recv_cq.get());
  EXPECT_EQ(got.wr_id, 2U);
  EXPECT_TRUE(same_bytes(there_.bytes(0, 5000), here_.bytes(5000, 5000)));
  EXPECT_TRUE(completions_in(pair_.b.recv_cq.get()).empty());
}

TEST_F(unreliable_connection, a_refused_write_is_lost_silently) {
  ASSERT_EQ(write(1, {here_.sge(0, 5000)}, there_.address(), 1).post(pair_.a.qp.get()), 0);
  wait_for_success(pair_.a.send_cq.get());
  ASSERT_EQ(post_receive(pair_.b.qp.get(), 2, {there_.sge(10000, 10)}), 0);
  send_to_b(3, 0, 10);

  wait_for_success(pair_.b.recv_cq.get());
  EXPECT_TRUE(all_zero(there_.bytes(0, 10000)));
  EXPECT_EQ(state_of(pair_.b.qp.get()), IBV_QPS_RTS);
}

TEST_F(unreliable_connection, a_receive_that_is_too_small_fails) {
  ASSERT_EQ(post_receive(pair_.b.qp.get(), 2, {there_.sge(0, 2000)}), 0);
  send_to_b(3, 0, 2001);

  const auto got = wait_for_one(pair_.b.recv_cq.get());
  EXPECT_EQ(got.wr_id, 2U);
  EXPECT_EQ(got.status, IBV_WC_LOC_LEN_ERR);
  EXPECT_TRUE(all_zero(there_.bytes(2000, 100)));
}

TEST_F(unreliable_connection, what_needs_an_answer_does_not_exist) {
  EXPECT_EQ(read(1, {here_.sge(0, 8)}, there_.address(), there_.rkey()).post(pair_.a.qp.get()),
            EINVAL);
  EXPECT_EQ(
      fetch_add(1, here_.sge(0, 8), there_.address(), there_.rkey(), 1).post(pair_.a.qp.get()),
      EINVAL);
}

TEST_F(unreliable_connection, a_bad_element_stops_the_send_queue_alone) {
  auto bad = here_.sge(0, 8);
  bad.lkey ^= 1U;
  ASSERT_EQ(send(1, {bad}).post(pair_.a.qp.get()), 0);
  EXPECT_EQ(wait_for_one(pair_.a.send_cq.get()).status, IBV_WC_LOC_PROT_ERR);
  EXPECT_EQ(state_of(pair_.a.qp.get()), IBV_QPS_SQE);

  ASSERT_EQ(post_receive(pair_.a.qp.get(), 2, {here_.sge(0, 100)}), 0);
  ASSERT_EQ(send(3, {there_.sge(0, 100)}).post(pair_.b.qp.get()), 0);
  EXPECT_EQ(wait_for_success(pair_.a.recv_cq.get()).wr_id, 2U) << "it still receives";

  ASSERT_EQ(to_state(IBV_QPS_RTS).apply(pair_.a.qp.get()), 0);
  ASSERT_EQ(post_receive(pair_.b.qp.get(), 4, {there_.sge()}), 0);
  send_to_b(5, 0, 3000);
  EXPECT_EQ(wait_for_success(pair_.b.recv_cq.get()).byte_len, 3000U);
}

TEST_F(unreliable_connection, many_messages_keep_their_order) {
  constexpr std::uint64_t count = 500;
  for (std::uint64_t id = 0; id < count; ++id) {
    ASSERT_EQ(post_receive(pair_.b.qp.get(), id, {there_.sge()}), 0);
    ASSERT_EQ(
        send(id, {here_.sge(id, 1500)}).imm(static_cast<std::uint32_t>(id)).post(pair_.a.qp.get()),
        0);
    wait_for_success(pair_.a.send_cq.get());
    const auto got = wait_for_success(pair_.b.recv_cq.get());
    EXPECT_EQ(be32toh(got.imm_data), id);
    ASSERT_TRUE(same_bytes(there_.bytes(0, 1500), here_.bytes(id, 1500)));
  }
}

}  // namespace
}  // namespace softverbs::device_tests
