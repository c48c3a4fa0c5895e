// RDMA WRITE: bytes appear in the peer's memory without action of its program.

#include <array>
#include <cstddef>
#include <span>

#include <gtest/gtest.h>

#include <rdmaxx/rdmaxx.hpp>

#include "byte_pattern.hpp"
#include "completion_waiter.hpp"
#include "connected_pair.hpp"

namespace rdmaxx::device_tests {

namespace {

class rdma_write : public ::testing::Test {
 protected:
  /// A write is known to have arrived when a later message of the same queue pair has.
  static void write(const connected_pair& pair, const gather_list& from, remote_address to) {
    const auto inbox = pair.b.local_memory(1);
    pair.b.qp.post(recv_wr{.into = inbox.scatter()}).value();
    pair.a.qp.post(write_wr{.id = wr_id{1}, .from = from, .to = to}).value();
    pair.a.qp.post(send_wr{.id = wr_id{2}}).value();
    const auto written = wait_for_success(pair.a.send_cq);
    EXPECT_EQ(written.id(), wr_id{1});
    EXPECT_EQ(written.opcode(), wc_opcode::rdma_write);
    wait_for_success(pair.a.send_cq);
    wait_for_success(pair.b.recv_cq);
  }
};

TEST_F(rdma_write, bytes_land_where_they_were_aimed) {
  const connected_pair pair;
  const auto from = pair.a.local_memory(1000);
  const auto to = pair.b.shared_memory(3000);
  fill_pattern(from.bytes(), 1);

  write(pair, from.gather(), to.remote(1000));

  EXPECT_TRUE(all_zero(to.bytes().first(1000)));
  EXPECT_TRUE(same_bytes(to.bytes().subspan(1000, 1000), from.bytes()));
  EXPECT_TRUE(all_zero(to.bytes().last(1000)));
}

TEST_F(rdma_write, gathers_several_elements) {
  const connected_pair pair;
  const auto from = pair.a.local_memory(3000);
  const auto to = pair.b.shared_memory(1024);
  fill_pattern(from.bytes(), 2);
  const std::array parts{
      from.gather(from.bytes().subspan(2000, 24)), from.gather(from.bytes().subspan(0, 600)),
      from.gather(from.bytes().subspan(1000, 399)), from.gather(from.bytes().subspan(2999, 1))};

  write(pair, parts, to.remote());

  EXPECT_TRUE(same_bytes(to.bytes().first(24), from.bytes().subspan(2000, 24)));
  EXPECT_TRUE(same_bytes(to.bytes().subspan(24, 600), from.bytes().subspan(0, 600)));
  EXPECT_TRUE(same_bytes(to.bytes().subspan(624, 399), from.bytes().subspan(1000, 399)));
  EXPECT_TRUE(same_bytes(to.bytes().subspan(1023, 1), from.bytes().subspan(2999, 1)));
}

TEST_F(rdma_write, a_mebibyte_arrives_whole) {
  constexpr std::size_t mebibyte = std::size_t{1} << 20;
  const connected_pair pair;
  const auto from = pair.a.local_memory(mebibyte);
  const auto to = pair.b.shared_memory(mebibyte);
  fill_pattern(from.bytes(), 3);

  write(pair, from.gather(), to.remote());

  EXPECT_TRUE(same_bytes(to.bytes(), from.bytes()));
}

TEST_F(rdma_write, of_no_bytes_changes_nothing) {
  const connected_pair pair;
  const auto to = pair.b.shared_memory(64);

  write(pair, {}, to.remote());

  EXPECT_TRUE(all_zero(to.bytes()));
}

TEST_F(rdma_write, with_immediate_data_consumes_a_receive) {
  RDMAXX_NEEDS(capability::immediate_data);
  const connected_pair pair;
  const auto from = pair.a.local_memory(500);
  const auto to = pair.b.shared_memory(500);
  fill_pattern(from.bytes(), 4);

  pair.b.qp.post(recv_wr{.id = wr_id{9}}).value();
  pair.a.qp.post(write_wr{.from = from.gather(), .to = to.remote(), .imm = 0xdeadbeef}).value();

  const auto received = wait_for_success(pair.b.recv_cq);
  EXPECT_EQ(received.id(), wr_id{9});
  EXPECT_EQ(received.opcode(), wc_opcode::recv_rdma_with_imm);
  EXPECT_TRUE(received.is_receive());
  EXPECT_EQ(received.imm_data(), 0xdeadbeefU);
  EXPECT_EQ(received.byte_len(), 500U);
  EXPECT_EQ(wait_for_success(pair.a.send_cq).opcode(), wc_opcode::rdma_write);
  EXPECT_TRUE(same_bytes(to.bytes(), from.bytes()));
}

TEST_F(rdma_write, without_immediate_data_consumes_no_receive) {
  const connected_pair pair;
  const auto from = pair.a.local_memory(8);
  const auto to = pair.b.shared_memory(8);
  const auto inbox = pair.b.local_memory(8);
  fill_pattern(from.bytes(), 5);
  pair.b.qp.post(recv_wr{.id = wr_id{1}, .into = inbox.scatter()}).value();

  pair.a.qp.post(write_wr{.from = from.gather(), .to = to.remote()}).value();
  pair.a.qp.post(send_wr{.from = from.gather()}).value();

  const auto received = wait_for_success(pair.b.recv_cq);
  EXPECT_EQ(received.opcode(), wc_opcode::recv);
  EXPECT_TRUE(same_bytes(inbox.bytes(), from.bytes()));
  EXPECT_TRUE(same_bytes(to.bytes(), from.bytes()));
  wait_for_successes(pair.a.send_cq, 2);
  EXPECT_TRUE(completions_in(pair.b.recv_cq).empty());
}

TEST_F(rdma_write, later_writes_to_one_place_win) {
  constexpr std::size_t writes = 40;
  const connected_pair pair;
  const auto from = pair.a.local_memory(writes * 64);
  const auto to = pair.b.shared_memory(64);
  fill_pattern(from.bytes(), 6);
  for (std::size_t i = 0; i < writes; ++i) {
    pair.a.qp
        .post(write_wr{.id = wr_id{i},
                       .from = from.gather(from.bytes().subspan(i * 64, 64)),
                       .to = to.remote()})
        .value();
  }
  const auto inbox = pair.b.local_memory(1);
  pair.b.qp.post(recv_wr{.into = inbox.scatter()}).value();
  pair.a.qp.post(send_wr{}).value();

  wait_for_successes(pair.a.send_cq, writes + 1);
  wait_for_success(pair.b.recv_cq);

  EXPECT_TRUE(same_bytes(to.bytes(), from.bytes().last(64)));
}

}  // namespace
}  // namespace rdmaxx::device_tests
