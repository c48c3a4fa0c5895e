// UD: the header in front of a datagram, the way back to its sender, and what is dropped.

#include <array>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

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

constexpr std::size_t largest = 4096;

class datagrams : public testing::Test {
 protected:
  void SetUp() override { fill_pattern(here_.bytes(), 1); }

  void expect_datagram() { ASSERT_EQ(post_receive(pair_.b.qp.get(), 1, {there_.sge()}), 0); }
  /// A datagram to b, taken by the device.
  void send_to_b(ibv_ah* ah, std::size_t bytes, std::uint32_t key = queue_key) {
    ASSERT_EQ(send(2, {here_.sge(0, bytes)}).to(ah, pair_.b.qp->qp_num, key).post(pair_.a.qp.get()),
              0);
    wait_for_success(pair_.a.send_cq.get());
  }
  [[nodiscard]] std::uint8_t byte(std::size_t place) {
    return std::to_integer<std::uint8_t>(there_.bytes()[place]);
  }
  [[nodiscard]] unsigned two_bytes(std::size_t place) {
    return (unsigned{byte(place)} << 8U) | byte(place + 1);
  }

  connected_pair pair_{pair_options{.type = IBV_QPT_UD}};
  owned<ibv_ah> to_b_ = address_of_neighbour(pair_.a.domain());
  buffer here_{pair_.a.domain(), largest + 1};
  buffer there_{pair_.b.domain(), grh_bytes + largest + 1};
};

TEST_F(datagrams, over_ipv4_the_header_is_an_ip_header_in_the_last_20_bytes) {
  expect_datagram();
  send_to_b(to_b_.get(), 101);

  const auto got = wait_for_success(pair_.b.recv_cq.get());
  EXPECT_EQ(got.byte_len, grh_bytes + 101);
  EXPECT_EQ(got.wc_flags, unsigned{IBV_WC_GRH});
  EXPECT_EQ(got.sl, 0b1010) << "UDP, IPv4";
  EXPECT_EQ(got.src_qp, pair_.a.qp->qp_num);
  EXPECT_EQ(got.qp_num, pair_.b.qp->qp_num);
  EXPECT_TRUE(same_bytes(there_.bytes(grh_bytes, 101), here_.bytes(0, 101)));
  EXPECT_EQ(byte(20), 0x45) << "version and length";
  EXPECT_EQ(two_bytes(22), 20 + 8 + 12 + 8 + 101 + 3 + 4)
      << "IP, UDP, BTH, DETH, payload, pad, ICRC";
  EXPECT_EQ(byte(28), 64) << "time to live";
  EXPECT_EQ(byte(29), 17) << "UDP";
  const std::array loopback{std::byte{127}, std::byte{0}, std::byte{0}, std::byte{1}};
  EXPECT_TRUE(same_bytes(there_.bytes(32, 4), loopback)) << "source";
  EXPECT_TRUE(same_bytes(there_.bytes(36, 4), loopback)) << "destination";
  unsigned sum = 0;
  for (std::size_t i = 20; i < 40; i += 2) sum += two_bytes(i);
  EXPECT_EQ((sum & 0xffffU) + (sum >> 16U), 0xffffU) << "checksum";
}

TEST_F(datagrams, over_ipv6_the_header_is_an_ipv6_header) {
  const auto ah = address_of_neighbour(pair_.a.domain(), ipv6_index);
  expect_datagram();
  send_to_b(ah.get(), 100);

  const auto got = wait_for_success(pair_.b.recv_cq.get());
  EXPECT_EQ(got.byte_len, grh_bytes + 100);
  EXPECT_EQ(got.sl, 0b1001) << "UDP, IPv6";
  ibv_grh grh{};
  std::memcpy(&grh, there_.bytes().data(), sizeof grh);
  EXPECT_EQ(be32toh(grh.version_tclass_flow) >> 28U, 6U);
  EXPECT_EQ(be16toh(grh.paylen), 8 + 12 + 8 + 100 + 4);
  EXPECT_EQ(grh.next_hdr, 17);
  EXPECT_EQ(grh.hop_limit, 64);
  const auto own_gid = gid_of(pair_.context, ipv6_index);
  EXPECT_EQ(std::memcmp(&grh.sgid, &own_gid, sizeof own_gid), 0);
  EXPECT_EQ(std::memcmp(&grh.dgid, &own_gid, sizeof own_gid), 0);
  EXPECT_TRUE(same_bytes(there_.bytes(grh_bytes, 100), here_.bytes(0, 100)));
}

TEST_F(datagrams, the_way_back_follows_from_the_completion) {
  for (const std::uint8_t index : {ipv4_index, ipv6_index}) {
    SCOPED_TRACE(int{index});
    const auto ah = address_of_neighbour(pair_.a.domain(), index);
    buffer answer(pair_.a.domain(), grh_bytes + 64);
    expect_datagram();
    send_to_b(ah.get(), 64);
    auto got = wait_for_success(pair_.b.recv_cq.get());
    ibv_grh grh{};
    std::memcpy(&grh, there_.bytes().data(), sizeof grh);

    ibv_ah_attr back{};
    ASSERT_EQ(ibv_init_ah_from_wc(pair_.context, 1, &got, &grh, &back), 0);
    EXPECT_EQ(back.is_global, 1);
    EXPECT_EQ(back.port_num, 1);
    EXPECT_EQ(back.sl, 0);
    EXPECT_EQ(back.grh.sgid_index, index);
    const auto own_gid = gid_of(pair_.context, index);
    EXPECT_EQ(std::memcmp(&back.grh.dgid, &own_gid, sizeof own_gid), 0);

    const auto made = own(ibv_create_ah_from_wc(pair_.b.domain(), &got, &grh, 1));
    ASSERT_EQ(post_receive(pair_.a.qp.get(), 3, {answer.sge()}), 0);
    ASSERT_EQ(send(4, {there_.sge(grh_bytes, 64)})
                  .to(made.get(), got.src_qp, queue_key)
                  .post(pair_.b.qp.get()),
              0);
    wait_for_success(pair_.b.send_cq.get());
    EXPECT_EQ(wait_for_success(pair_.a.recv_cq.get()).src_qp, pair_.b.qp->qp_num);
    EXPECT_TRUE(same_bytes(answer.bytes(grh_bytes, 64), here_.bytes(0, 64)));
  }
}

TEST_F(datagrams, without_a_header_there_is_no_way_back) {
  ibv_wc without{};
  ibv_grh grh{};
  errno = 0;
  EXPECT_EQ(ibv_create_ah_from_wc(pair_.b.domain(), &without, &grh, 1), nullptr);
  EXPECT_EQ(errno, EINVAL);
}

TEST_F(datagrams, another_key_is_dropped) {
  expect_datagram();
  send_to_b(to_b_.get(), 10, queue_key + 1);
  send_to_b(to_b_.get(), 20);

  EXPECT_EQ(wait_for_success(pair_.b.recv_cq.get()).byte_len, grh_bytes + 20);
  EXPECT_TRUE(completions_in(pair_.b.recv_cq.get()).empty());
}

TEST_F(datagrams, a_key_with_its_highest_bit_stands_for_that_of_the_sender) {
  expect_datagram();
  send_to_b(to_b_.get(), 10, 0x80000000);

  EXPECT_EQ(wait_for_success(pair_.b.recv_cq.get()).byte_len, grh_bytes + 10);
}

TEST_F(datagrams, one_that_meets_no_receive_is_lost_alone) {
  send_to_b(to_b_.get(), 10);
  expect_datagram();
  send_to_b(to_b_.get(), 20);

  EXPECT_EQ(wait_for_success(pair_.b.recv_cq.get()).byte_len, grh_bytes + 20);
}

TEST_F(datagrams, to_nobody_they_are_sent_all_the_same) {
  ASSERT_EQ(send(2, {here_.sge(0, 8)}).to(to_b_.get(), 5, queue_key).post(pair_.a.qp.get()), 0);
  EXPECT_EQ(wait_for_one(pair_.a.send_cq.get()).status, IBV_WC_SUCCESS);
}

TEST_F(datagrams, the_largest_arrives_and_one_byte_more_is_an_error_of_the_send_queue) {
  expect_datagram();
  send_to_b(to_b_.get(), largest);
  EXPECT_EQ(wait_for_success(pair_.b.recv_cq.get()).byte_len, grh_bytes + largest);
  EXPECT_TRUE(same_bytes(there_.bytes(grh_bytes, largest), here_.bytes(0, largest)));

  for (std::uint64_t id = 3; id < 5; ++id) {
    const std::size_t bytes = id == 3 ? largest + 1 : 8;
    ASSERT_EQ(send(id, {here_.sge(0, bytes)})
                  .to(to_b_.get(), pair_.b.qp->qp_num, queue_key)
                  .post(pair_.a.qp.get()),
              0);
  }
  const auto failed = wait_for(pair_.a.send_cq.get(), 2);
  EXPECT_EQ(failed[0].wr_id, 3U);
  EXPECT_EQ(failed[0].status, IBV_WC_LOC_LEN_ERR);
  EXPECT_EQ(failed[1].wr_id, 4U);
  EXPECT_EQ(failed[1].status, IBV_WC_WR_FLUSH_ERR);
  EXPECT_EQ(state_of(pair_.a.qp.get()), IBV_QPS_SQE);

  ASSERT_EQ(to_state(IBV_QPS_RTS).apply(pair_.a.qp.get()), 0) << "it recovers";
  expect_datagram();
  send_to_b(to_b_.get(), 12);
  EXPECT_EQ(wait_for_success(pair_.b.recv_cq.get()).byte_len, grh_bytes + 12);
}

TEST_F(datagrams, a_receive_that_is_too_small_fails) {
  ASSERT_EQ(post_receive(pair_.b.qp.get(), 7, {there_.sge(0, grh_bytes + 9)}), 0);
  send_to_b(to_b_.get(), 10);

  const auto got = wait_for_one(pair_.b.recv_cq.get());
  EXPECT_EQ(got.wr_id, 7U);
  EXPECT_EQ(got.status, IBV_WC_LOC_LEN_ERR);
  EXPECT_TRUE(all_zero(there_.bytes(grh_bytes + 9, 1)));
}

TEST_F(datagrams, operations_on_memory_do_not_exist) {
  EXPECT_EQ(write(1, {here_.sge(0, 8)}, there_.address(), there_.rkey()).post(pair_.a.qp.get()),
            EINVAL);
  EXPECT_EQ(read(1, {here_.sge(0, 8)}, there_.address(), there_.rkey()).post(pair_.a.qp.get()),
            EINVAL);
}

TEST_F(datagrams, addresses_that_cannot_be_are_refused) {
  const auto refusal = [&](auto change) {
    ibv_ah_attr wanted{};
    wanted.is_global = 1;
    wanted.port_num = 1;
    wanted.grh.dgid = gid_of(pair_.context, ipv4_index);
    wanted.grh.sgid_index = ipv4_index;
    change(wanted);
    errno = 0;
    const owned<ibv_ah> made(ibv_create_ah(pair_.a.domain(), &wanted));
    return made == nullptr ? errno : 0;
  };
  EXPECT_EQ(refusal([](ibv_ah_attr&) {}), 0);
  EXPECT_EQ(refusal([](ibv_ah_attr& wanted) { wanted.port_num = 2; }), EINVAL);
  EXPECT_EQ(refusal([](ibv_ah_attr& wanted) { wanted.is_global = 0; }), EINVAL);
  EXPECT_EQ(refusal([](ibv_ah_attr& wanted) { wanted.grh.sgid_index = 200; }), EINVAL);
  EXPECT_EQ(refusal([](ibv_ah_attr& wanted) { wanted.grh.sgid_index = ipv6_index; }), EINVAL)
      << "from IPv6 to IPv4";
}

}  // namespace
}  // namespace softverbs::device_tests
