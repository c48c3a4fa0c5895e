// RC: bytes of every length over every MTU and address family, order, fences and limits.

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>

#include <gtest/gtest.h>
#include <infiniband/verbs.h>

#include "connected_pair.hpp"
#include "device/byte_pattern.hpp"
#include "owned.hpp"
#include "requests.hpp"
#include "waiting.hpp"

namespace softverbs::device_tests {

namespace {

using rdmaxx::device_tests::fill_pattern;
using rdmaxx::device_tests::pattern;
using rdmaxx::device_tests::same_bytes;

std::uint64_t value_at(std::span<const std::byte> bytes) {
  std::uint64_t value = 0;
  std::memcpy(&value, bytes.data(), sizeof value);
  return value;
}

TEST(transfers, every_length_over_every_mtu_and_address) {
  for (const std::uint8_t index : {std::uint8_t{0}, ipv4_index, ipv6_index}) {
    for (const auto mtu : {IBV_MTU_256, IBV_MTU_512, IBV_MTU_1024, IBV_MTU_2048, IBV_MTU_4096}) {
      const std::size_t packet = std::size_t{128} << mtu;
      const connected_pair pair({.gid_index = index, .mtu = mtu});
      buffer here(pair.a.domain(), 8 * packet);
      buffer there(pair.b.domain(), 4 * packet);
      std::uint64_t seed = 0;
      for (const std::size_t bytes :
           {std::size_t{0}, std::size_t{1}, packet - 1, packet, packet + 1, (3 * packet) + 5}) {
        SCOPED_TRACE(std::to_string(bytes) + " bytes, MTU " + std::to_string(packet) + ", GID " +
                     std::to_string(index));
        fill_pattern(here.bytes(), ++seed);
        ASSERT_EQ(post_receive(pair.b.qp.get(), 1, {there.sge()}), 0);
        ASSERT_EQ(send(1, {here.sge(1, bytes)}).post(pair.a.qp.get()), 0);
        EXPECT_EQ(wait_for_success(pair.b.recv_cq.get()).byte_len, bytes);
        wait_for_success(pair.a.send_cq.get());
        ASSERT_TRUE(same_bytes(there.bytes(0, bytes), here.bytes(1, bytes)));

        fill_pattern(here.bytes(), ++seed);
        ASSERT_EQ(
            write(2, {here.sge(3, bytes)}, there.address(2), there.rkey()).post(pair.a.qp.get()),
            0);
        wait_for_success(pair.a.send_cq.get());
        ASSERT_TRUE(same_bytes(there.bytes(2, bytes), here.bytes(3, bytes)));

        ASSERT_EQ(read(3, {here.sge(4 * packet, bytes)}, there.address(2), there.rkey())
                      .post(pair.a.qp.get()),
                  0);
        EXPECT_EQ(wait_for_success(pair.a.send_cq.get()).byte_len, bytes);
        ASSERT_TRUE(same_bytes(here.bytes(4 * packet, bytes), there.bytes(2, bytes)));
      }
    }
  }
}

TEST(transfers, eight_mebibytes_at_once) {
  constexpr std::size_t bytes = 8U << 20U;
  const connected_pair pair({.mtu = IBV_MTU_4096});
  buffer here(pair.a.domain(), bytes);
  buffer there(pair.b.domain(), bytes);
  buffer back(pair.a.domain(), bytes);
  fill_pattern(here.bytes(), 1);

  ASSERT_EQ(write(1, {here.sge()}, there.address(), there.rkey()).post(pair.a.qp.get()), 0);
  ASSERT_EQ(read(2, {back.sge()}, there.address(), there.rkey()).post(pair.a.qp.get()), 0);

  wait_for_successes(pair.a.send_cq.get(), 2);
  EXPECT_TRUE(same_bytes(there.bytes(), here.bytes()));
  EXPECT_TRUE(same_bytes(back.bytes(), here.bytes())) << "the read saw the write before it";
}

TEST(transfers, both_sides_at_once) {
  constexpr std::size_t bytes = 1U << 20U;
  const connected_pair pair;
  buffer a(pair.a.domain(), 2 * bytes);
  buffer b(pair.b.domain(), 2 * bytes);
  fill_pattern(a.bytes(0, bytes), 1);
  fill_pattern(b.bytes(0, bytes), 2);

  ASSERT_EQ(write(1, {a.sge(0, bytes)}, b.address(bytes), b.rkey()).post(pair.a.qp.get()), 0);
  ASSERT_EQ(write(1, {b.sge(0, bytes)}, a.address(bytes), a.rkey()).post(pair.b.qp.get()), 0);

  wait_for_success(pair.a.send_cq.get());
  wait_for_success(pair.b.send_cq.get());
  EXPECT_TRUE(same_bytes(b.bytes(bytes, bytes), a.bytes(0, bytes)));
  EXPECT_TRUE(same_bytes(a.bytes(bytes, bytes), b.bytes(0, bytes)));
}

TEST(transfers, a_queue_pair_can_be_its_own_peer) {
  const auto context = open_device();
  const side self(context.get());
  connect(self.qp.get(), self.qp->qp_num);
  buffer memory(self.domain(), 10000);
  fill_pattern(memory.bytes(0, 5000), 1);

  ASSERT_EQ(post_receive(self.qp.get(), 1, {memory.sge(5000, 5000)}), 0);
  ASSERT_EQ(send(2, {memory.sge(0, 5000)}).post(self.qp.get()), 0);

  wait_for_success(self.recv_cq.get());
  wait_for_success(self.send_cq.get());
  EXPECT_TRUE(same_bytes(memory.bytes(5000, 5000), memory.bytes(0, 5000)));
}

TEST(transfers, a_fenced_request_sees_what_was_read_before) {
  const connected_pair pair;
  buffer here(pair.a.domain(), 4000);
  buffer there(pair.b.domain(), 8000);
  for (std::uint64_t round = 0; round < 20; ++round) {
    fill_pattern(there.bytes(0, 4000), round);
    ASSERT_EQ(read(1, {here.sge()}, there.address(), there.rkey()).post(pair.a.qp.get()), 0);
    ASSERT_EQ(write(2, {here.sge()}, there.address(4000), there.rkey())
                  .flags(IBV_SEND_FENCE)
                  .post(pair.a.qp.get()),
              0);
    wait_for_successes(pair.a.send_cq.get(), 2);
    ASSERT_TRUE(same_bytes(there.bytes(4000, 4000), there.bytes(0, 4000)));
  }
}

TEST(transfers, unsignaled_requests_free_their_places) {
  const connected_pair pair({.capacities = {.max_send_wr = 8,
                                            .max_recv_wr = 1,
                                            .max_send_sge = 1,
                                            .max_recv_sge = 1,
                                            .max_inline_data = 8}});
  buffer here(pair.a.domain(), 8);
  buffer there(pair.b.domain(), 8);
  const auto room = attributes_of(pair.a.qp.get()).cap.max_send_wr;
  for (std::uint64_t id = 1; id <= std::uint64_t{10} * room; ++id) {
    auto each = write(id, {here.sge()}, there.address(), there.rkey());
    if (id % room != 0) each.wr.send_flags = 0;
    ASSERT_EQ(each.post(pair.a.qp.get()), 0);
    if (id % room == 0) {
      EXPECT_EQ(wait_for_success(pair.a.send_cq.get()).wr_id, id);
    }
  }
  EXPECT_TRUE(completions_in(pair.a.send_cq.get()).empty());
}

TEST(transfers, everything_is_signaled_where_the_queue_pair_says_so) {
  const connected_pair pair({.signal_all = true});
  auto each = write(1, {}, 0, 0);
  each.wr.send_flags = 0;
  ASSERT_EQ(each.post(pair.a.qp.get()), 0);
  EXPECT_EQ(wait_for_success(pair.a.send_cq.get()).wr_id, 1U);
}

TEST(transfers, inline_data_is_taken_when_it_is_posted) {
  const connected_pair pair;
  buffer there(pair.b.domain(), 128);
  auto local = pattern(128, 1);
  const auto expected = local;
  const ibv_sge unregistered{
      .addr = reinterpret_cast<std::uintptr_t>(local.data()), .length = 128, .lkey = 0};
  const ibv_sge longer{.addr = unregistered.addr, .length = 1, .lkey = 0};

  ASSERT_EQ(write(1, {unregistered}, there.address(), there.rkey())
                .flags(IBV_SEND_INLINE)
                .post(pair.a.qp.get()),
            0);
  local.assign(128, std::byte{0});
  wait_for_success(pair.a.send_cq.get());
  EXPECT_TRUE(same_bytes(there.bytes(), expected));

  EXPECT_EQ(write(1, {unregistered, longer}, there.address(), there.rkey())
                .flags(IBV_SEND_INLINE)
                .post(pair.a.qp.get()),
            ENOMEM);
  EXPECT_EQ(read(1, {unregistered}, there.address(), there.rkey())
                .flags(IBV_SEND_INLINE)
                .post(pair.a.qp.get()),
            EINVAL);
}

TEST(transfers, many_reads_and_atomics_whatever_may_be_outstanding) {
  for (const auto outstanding : {std::uint8_t{1}, std::uint8_t{2}, std::uint8_t{128}}) {
    SCOPED_TRACE(int{outstanding});
    constexpr std::uint64_t count = 256;
    const connected_pair pair({.capacities = {.max_send_wr = 2 * count,
                                              .max_recv_wr = 1,
                                              .max_send_sge = 1,
                                              .max_recv_sge = 1,
                                              .max_inline_data = 0},
                               .cq_entries = 2 * count,
                               .max_rd_atomic = outstanding,
                               .max_dest_rd_atomic = outstanding});
    buffer here(pair.a.domain(), (count * 2000) + (count * 8));
    buffer there(pair.b.domain(), (count * 2000) + 8);
    fill_pattern(there.bytes(0, count * 2000), outstanding);
    for (std::uint64_t i = 0; i < count; ++i) {
      ASSERT_EQ(read(2 * i, {here.sge(i * 2000, 2000)}, there.address(i * 2000), there.rkey())
                    .post(pair.a.qp.get()),
                0);
      ASSERT_EQ(fetch_add((2 * i) + 1, here.sge((count * 2000) + (i * 8), 8),
                          there.address(count * 2000), there.rkey(), 3)
                    .post(pair.a.qp.get()),
                0);
    }
    const auto done = wait_for_successes(pair.a.send_cq.get(), 2 * count);
    for (std::uint64_t i = 0; i < 2 * count; ++i) EXPECT_EQ(done[i].wr_id, i);
    EXPECT_TRUE(same_bytes(here.bytes(0, count * 2000), there.bytes(0, count * 2000)));
    for (std::uint64_t i = 0; i < count; ++i) {
      EXPECT_EQ(value_at(here.bytes((count * 2000) + (i * 8), 8)), 3 * i);
    }
    EXPECT_EQ(value_at(there.bytes(count * 2000, 8)), 3 * count);
  }
}

TEST(transfers, reads_and_atomics_fail_where_none_may_be_outstanding) {
  for (const bool atomic : {false, true}) {
    SCOPED_TRACE(atomic);
    const connected_pair pair({.max_rd_atomic = 0});
    const buffer here(pair.a.domain(), 8);
    const buffer there(pair.b.domain(), 8);
    auto request = atomic ? fetch_add(1, here.sge(), there.address(), there.rkey(), 1)
                          : read(1, {here.sge()}, there.address(), there.rkey());
    ASSERT_EQ(request.post(pair.a.qp.get()), 0);
    EXPECT_EQ(wait_for_one(pair.a.send_cq.get()).status, IBV_WC_LOC_QP_OP_ERR);
    EXPECT_EQ(state_of(pair.a.qp.get()), IBV_QPS_ERR);
  }
}

TEST(transfers, a_read_is_scattered) {
  const connected_pair pair;
  buffer here(pair.a.domain(), 5000);
  buffer there(pair.b.domain(), 4000);
  fill_pattern(there.bytes(), 1);
  ASSERT_EQ(read(1, {here.sge(0, 1), here.sge(100, 2999), here.sge(4000, 1000)}, there.address(),
                 there.rkey())
                .post(pair.a.qp.get()),
            0);
  wait_for_success(pair.a.send_cq.get());
  EXPECT_TRUE(same_bytes(here.bytes(0, 1), there.bytes(0, 1)));
  EXPECT_TRUE(same_bytes(here.bytes(100, 2999), there.bytes(1, 2999)));
  EXPECT_TRUE(same_bytes(here.bytes(4000, 1000), there.bytes(3000, 1000)));
}

}  // namespace
}  // namespace softverbs::device_tests
