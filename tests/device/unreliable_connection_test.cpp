// UC: the operations of a connection without acknowledgements.

#include <array>
#include <cstddef>

#include <gtest/gtest.h>

#include <rdmaxx/rdmaxx.hpp>

#include "byte_pattern.hpp"
#include "completion_waiter.hpp"
#include "connected_pair.hpp"

namespace rdmaxx::device_tests {

namespace {

class unreliable_connection : public ::testing::Test {
 protected:
  void SetUp() override { RDMAXX_NEEDS(capability::uc); }

  static connected_pair connect() { return connected_pair({.type = qp_type::uc}); }
};

TEST_F(unreliable_connection, a_send_arrives_with_its_bytes_and_immediate_data) {
  const auto pair = connect();
  const auto from = pair.a.local_memory(9000);
  const auto to = pair.b.local_memory(9000);
  fill_pattern(from.bytes(), 1);

  pair.b.qp.post(recv_wr{.id = wr_id{1}, .into = to.scatter()}).value();
  pair.a.qp.post(send_wr{.id = wr_id{2}, .from = from.gather(), .imm = 77}).value();

  const auto received = wait_for_success(pair.b.recv_cq);
  EXPECT_EQ(received.id(), wr_id{1});
  EXPECT_EQ(received.byte_len(), 9000U);
  EXPECT_EQ(received.imm_data(), 77U);
  EXPECT_EQ(wait_for_success(pair.a.send_cq).id(), wr_id{2});
  EXPECT_TRUE(same_bytes(to.bytes(), from.bytes()));
}

TEST_F(unreliable_connection, a_write_lands_in_the_peers_memory) {
  const auto pair = connect();
  const auto from = pair.a.local_memory(9000);
  const auto to = pair.b.shared_memory(9000);
  fill_pattern(from.bytes(), 2);

  pair.b.qp.post(recv_wr{}).value();
  pair.a.qp.post(write_wr{.from = from.gather(), .to = to.remote()}).value();
  pair.a.qp.post(write_wr{.to = to.remote(), .imm = 5}).value();

  EXPECT_EQ(wait_for_success(pair.b.recv_cq).imm_data(), 5U);
  wait_for_successes(pair.a.send_cq, 2);
  EXPECT_TRUE(same_bytes(to.bytes(), from.bytes()));
}

TEST_F(unreliable_connection, a_send_without_a_receive_is_lost_without_an_error) {
  const auto pair = connect();
  const auto from = pair.a.local_memory(16);
  const auto to = pair.b.local_memory(16);
  fill_pattern(from.bytes(), 3);

  pair.a.qp.post(send_wr{.from = from.gather()}).value();

  wait_for_success(pair.a.send_cq);
  EXPECT_TRUE(completions_in(pair.b.recv_cq).empty());
}

}  // namespace
}  // namespace rdmaxx::device_tests
