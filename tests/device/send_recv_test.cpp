// SEND and RECV over a reliable connection: what one side sends, the other receives, byte by byte.

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

class send_recv : public ::testing::Test {
 protected:
  /// Sends all of `from` into all of `to` and checks both completions.
  static void transfer(const connected_pair& pair, const memory_region& from,
                       const memory_region& to) {
    pair.b.qp.post(recv_wr{.id = wr_id{7}, .into = to.scatter()}).value();
    pair.a.qp.post(send_wr{.id = wr_id{8}, .from = from.gather()}).value();
    const auto received = wait_for_success(pair.b.recv_cq);
    const auto sent = wait_for_success(pair.a.send_cq);
    EXPECT_EQ(sent.id(), wr_id{8});
    EXPECT_EQ(sent.opcode(), wc_opcode::send);
    EXPECT_EQ(sent.queue_pair(), pair.a.qp.number());
    EXPECT_EQ(received.id(), wr_id{7});
    EXPECT_EQ(received.opcode(), wc_opcode::recv);
    EXPECT_TRUE(received.is_receive());
    EXPECT_EQ(received.queue_pair(), pair.b.qp.number());
    EXPECT_EQ(received.byte_len(), from.size());
    EXPECT_FALSE(received.imm_data().has_value());
  }
};

TEST_F(send_recv, bytes_arrive_as_they_were_sent) {
  const connected_pair pair;
  const auto from = pair.a.local_memory(1000);
  const auto to = pair.b.local_memory(1000);
  fill_pattern(from.bytes(), 1);

  transfer(pair, from, to);

  EXPECT_TRUE(same_bytes(to.bytes(), from.bytes()));
}

TEST_F(send_recv, both_directions_work_at_once) {
  const connected_pair pair;
  const auto from_a = pair.a.local_memory(300);
  const auto from_b = pair.b.local_memory(500);
  const auto to_a = pair.a.local_memory(500);
  const auto to_b = pair.b.local_memory(300);
  fill_pattern(from_a.bytes(), 1);
  fill_pattern(from_b.bytes(), 2);

  pair.a.qp.post(recv_wr{.into = to_a.scatter()}).value();
  pair.b.qp.post(recv_wr{.into = to_b.scatter()}).value();
  pair.a.qp.post(send_wr{.from = from_a.gather()}).value();
  pair.b.qp.post(send_wr{.from = from_b.gather()}).value();

  EXPECT_EQ(wait_for_success(pair.a.recv_cq).byte_len(), 500U);
  EXPECT_EQ(wait_for_success(pair.b.recv_cq).byte_len(), 300U);
  wait_for_success(pair.a.send_cq);
  wait_for_success(pair.b.send_cq);
  EXPECT_TRUE(same_bytes(to_a.bytes(), from_b.bytes()));
  EXPECT_TRUE(same_bytes(to_b.bytes(), from_a.bytes()));
}

TEST_F(send_recv, a_message_shorter_than_the_receive_leaves_the_rest_alone) {
  const connected_pair pair;
  const auto from = pair.a.local_memory(100);
  const auto to = pair.b.local_memory(200);
  fill_pattern(from.bytes(), 1);

  transfer(pair, from, to);

  EXPECT_TRUE(same_bytes(to.bytes().first(100), from.bytes()));
  EXPECT_TRUE(all_zero(to.bytes().last(100)));
}

TEST_F(send_recv, an_empty_message_has_no_bytes) {
  const connected_pair pair;
  const auto to = pair.b.local_memory(16);
  pair.b.qp.post(recv_wr{.id = wr_id{1}, .into = to.scatter()}).value();
  pair.a.qp.post(send_wr{.id = wr_id{2}}).value();

  const auto received = wait_for_success(pair.b.recv_cq);

  EXPECT_EQ(received.byte_len(), 0U);
  EXPECT_EQ(received.id(), wr_id{1});
  EXPECT_EQ(wait_for_success(pair.a.send_cq).id(), wr_id{2});
  EXPECT_TRUE(all_zero(to.bytes()));
}

TEST_F(send_recv, a_mebibyte_arrives_whole) {
  constexpr std::size_t mebibyte = std::size_t{1} << 20;
  const connected_pair pair;
  const auto from = pair.a.local_memory(mebibyte);
  const auto to = pair.b.local_memory(mebibyte);
  fill_pattern(from.bytes(), 3);

  transfer(pair, from, to);

  EXPECT_TRUE(same_bytes(to.bytes(), from.bytes()));
}

TEST_F(send_recv, gather_and_scatter_lists_need_not_match) {
  const connected_pair pair;
  const auto from = pair.a.local_memory(4096);
  const auto to = pair.b.local_memory(4096);
  fill_pattern(from.bytes(), 4);
  const std::array gathers{from.gather(from.bytes().subspan(3000, 7)),
                           from.gather(from.bytes().subspan(0, 1000)),
                           from.gather(from.bytes().subspan(2000, 493))};
  const std::array scatters{
      to.scatter(to.bytes().subspan(100, 600)), to.scatter(to.bytes().subspan(2000, 1)),
      to.scatter(to.bytes().subspan(3000, 500)), to.scatter(to.bytes().subspan(1000, 800))};

  pair.b.qp.post(recv_wr{.into = scatters}).value();
  pair.a.qp.post(send_wr{.from = gathers}).value();

  const auto received = wait_for_success(pair.b.recv_cq);
  wait_for_success(pair.a.send_cq);
  ASSERT_EQ(received.byte_len(), 1500U);
  std::vector<std::byte> sent;
  for (const auto& [at, bytes] : {std::pair{3000, 7}, {0, 1000}, {2000, 493}}) {
    const auto part =
        from.bytes().subspan(static_cast<std::size_t>(at), static_cast<std::size_t>(bytes));
    sent.insert(sent.end(), part.begin(), part.end());
  }
  const std::span whole(sent);
  EXPECT_TRUE(same_bytes(to.bytes().subspan(100, 600), whole.subspan(0, 600)));
  EXPECT_TRUE(same_bytes(to.bytes().subspan(2000, 1), whole.subspan(600, 1)));
  EXPECT_TRUE(same_bytes(to.bytes().subspan(3000, 500), whole.subspan(601, 500)));
  EXPECT_TRUE(same_bytes(to.bytes().subspan(1000, 399), whole.subspan(1101, 399)));
  EXPECT_TRUE(all_zero(to.bytes().subspan(1399, 401)));
  EXPECT_TRUE(all_zero(to.bytes().first(100)));
}

TEST_F(send_recv, immediate_data_arrives_in_host_order) {
  RDMAXX_NEEDS(capability::immediate_data);
  const connected_pair pair;
  const auto from = pair.a.local_memory(64);
  const auto to = pair.b.local_memory(64);
  fill_pattern(from.bytes(), 5);

  pair.b.qp.post(recv_wr{.into = to.scatter()}).value();
  pair.a.qp.post(send_wr{.from = from.gather(), .imm = 0x01020304}).value();

  const auto received = wait_for_success(pair.b.recv_cq);
  wait_for_success(pair.a.send_cq);
  ASSERT_TRUE(received.imm_data().has_value());
  EXPECT_EQ(*received.imm_data(), 0x01020304U);
  EXPECT_TRUE(received.flags().has(wc_flag::with_imm));
  EXPECT_TRUE(same_bytes(to.bytes(), from.bytes()));
}

TEST_F(send_recv, receives_are_consumed_in_the_order_of_posting) {
  constexpr std::size_t messages = 32;
  constexpr std::size_t bytes = 48;
  const connected_pair pair;
  const auto from = pair.a.local_memory(messages * bytes);
  const auto to = pair.b.local_memory(messages * bytes);
  fill_pattern(from.bytes(), 6);
  for (std::size_t i = 0; i < messages; ++i) {
    pair.b.qp
        .post(recv_wr{.id = wr_id{i}, .into = to.scatter(to.bytes().subspan(i * bytes, bytes))})
        .value();
  }
  for (std::size_t i = 0; i < messages; ++i) {
    pair.a.qp
        .post(send_wr{.id = wr_id{i}, .from = from.gather(from.bytes().subspan(i * bytes, bytes))})
        .value();
  }

  const auto received = wait_for_successes(pair.b.recv_cq, messages);
  const auto sent = wait_for_successes(pair.a.send_cq, messages);

  for (std::size_t i = 0; i < messages; ++i) {
    EXPECT_EQ(received[i].id(), wr_id{i});
    EXPECT_EQ(sent[i].id(), wr_id{i});
  }
  EXPECT_TRUE(same_bytes(to.bytes(), from.bytes()));
}

TEST_F(send_recv, a_send_waits_for_a_receive_that_comes_late) {
  RDMAXX_NEEDS(capability::receiver_not_ready);
  const connected_pair pair;
  const auto from = pair.a.local_memory(64);
  const auto to = pair.b.local_memory(64);
  fill_pattern(from.bytes(), 7);

  pair.a.qp.post(send_wr{.from = from.gather()}).value();
  const auto before = completions_in(pair.a.send_cq);
  pair.b.qp.post(recv_wr{.into = to.scatter()}).value();

  EXPECT_TRUE(before.empty());
  wait_for_success(pair.b.recv_cq);
  wait_for_success(pair.a.send_cq);
  EXPECT_TRUE(same_bytes(to.bytes(), from.bytes()));
}

TEST_F(send_recv, one_completion_queue_serves_both_queues) {
  const connected_pair pair({.one_cq = true});
  const auto from = pair.a.local_memory(16);
  const auto to = pair.a.local_memory(16);
  const auto far = pair.b.local_memory(16);
  fill_pattern(from.bytes(), 8);

  pair.a.qp.post(recv_wr{.id = wr_id{1}, .into = to.scatter()}).value();
  pair.b.qp.post(recv_wr{.id = wr_id{2}, .into = far.scatter()}).value();
  pair.a.qp.post(send_wr{.id = wr_id{3}, .from = from.gather()}).value();
  const auto at_b = wait_for_success(pair.b.recv_cq);
  pair.b.qp.post(send_wr{.id = wr_id{4}, .from = far.gather()}).value();
  const auto at_a = wait_for_successes(pair.a.send_cq, 2);

  EXPECT_EQ(at_b.id(), wr_id{2});
  EXPECT_EQ(std::ranges::count_if(
                at_a, [](const auto& c) { return c.is_receive() && c.id() == wr_id{1}; }),
            1);
  EXPECT_EQ(std::ranges::count_if(
                at_a, [](const auto& c) { return !c.is_receive() && c.id() == wr_id{3}; }),
            1);
  EXPECT_TRUE(same_bytes(to.bytes(), from.bytes()));
}

TEST_F(send_recv, works_between_ipv6_addresses) {
  RDMAXX_NEEDS(capability::ipv6_gids);
  const auto ctx = device_under_test::get().open();
  const auto peer = gid::parse(text_of(device_under_test::get().netdev()->ipv6.value())).value();
  const auto own = pick_gid(ctx, 1, peer).value();
  ASSERT_FALSE(own.address.is_ipv4_mapped());
  const connected_pair pair({.connect = {.gid_index = own.index}});
  const auto from = pair.a.local_memory(5000);
  const auto to = pair.b.local_memory(5000);
  fill_pattern(from.bytes(), 9);

  transfer(pair, from, to);

  EXPECT_TRUE(same_bytes(to.bytes(), from.bytes()));
}

TEST_F(send_recv, a_queue_pair_can_be_connected_to_itself) {
  RDMAXX_NEEDS(capability::self_connection);
  const auto side = unconnected_side(device_under_test::get().open());
  side.qp.connect(side.qp.endpoint().value()).value();
  const auto from = side.local_memory(256);
  const auto to = side.local_memory(256);
  fill_pattern(from.bytes(), 10);

  side.qp.post(recv_wr{.into = to.scatter()}).value();
  side.qp.post(send_wr{.from = from.gather()}).value();

  EXPECT_EQ(wait_for_success(side.recv_cq).byte_len(), 256U);
  wait_for_success(side.send_cq);
  EXPECT_TRUE(same_bytes(to.bytes(), from.bytes()));
}

TEST_F(send_recv, every_path_mtu_of_the_port_carries_a_message_of_several_packets) {
  RDMAXX_NEEDS(capability::manual_connection);
  const auto ctx = device_under_test::get().open();
  const auto largest = ctx.query_port().value().active_mtu;
  for (auto size = mtu::mtu_256; size <= largest; size = mtu(static_cast<unsigned>(size) + 1)) {
    SCOPED_TRACE(describe(size));
    const connected_pair pair({.connect = {.path_mtu = size}});
    const auto from = pair.a.local_memory(10'000);
    const auto to = pair.b.local_memory(10'000);
    fill_pattern(from.bytes(), bytes_of(size));

    transfer(pair, from, to);

    EXPECT_TRUE(same_bytes(to.bytes(), from.bytes()));
  }
}

}  // namespace
}  // namespace rdmaxx::device_tests
