// ibv_qp_ex: requests built by ibv_wr_start … ibv_wr_complete.

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <utility>
#include <vector>

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

constexpr std::uint64_t datagram_ops = IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_SEND_WITH_IMM;
constexpr std::uint64_t reliable_ops =
    datagram_ops | IBV_QP_EX_WITH_RDMA_WRITE | IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM |
    IBV_QP_EX_WITH_RDMA_READ | IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP |
    IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD | IBV_QP_EX_WITH_LOCAL_INV | IBV_QP_EX_WITH_BIND_MW |
    IBV_QP_EX_WITH_SEND_WITH_INV;

/// A pair whose sides are extended, and memory on both.
class extended_qp : public testing::Test {
 protected:
  explicit extended_qp(pair_options options = {.send_ops = reliable_ops}) : pair_(options) {
    fill_pattern(here_.bytes(), 1);
  }

  /// One request: `build` names the operation and what belongs to it.
  template <class Build>
  [[nodiscard]] int post(std::uint64_t id, Build build) {
    ibv_wr_start(qp_);
    begin(id);
    build();
    return ibv_wr_complete(qp_);
  }
  void begin(std::uint64_t id) {
    qp_->wr_id = id;
    qp_->wr_flags = IBV_SEND_SIGNALED;
  }
  void from(std::size_t offset, std::size_t bytes) {
    ibv_wr_set_sge(qp_, here_.mr->lkey, here_.address(offset), static_cast<std::uint32_t>(bytes));
  }

  connected_pair pair_;
  ibv_qp_ex* qp_ = ibv_qp_to_qp_ex(pair_.a.qp.get());
  ibv_cq* cq_ = pair_.a.send_cq.get();
  buffer here_{pair_.a.domain(), 4096};
  buffer there_{pair_.b.domain(), 4096};
};

TEST_F(extended_qp, a_plain_queue_pair_is_not_extended) {
  const connected_pair plain(pair_.context);

  EXPECT_EQ(ibv_qp_to_qp_ex(plain.a.qp.get()), nullptr);
  ASSERT_NE(qp_, nullptr);
  EXPECT_EQ(&qp_->qp_base, pair_.a.qp.get());
}

TEST_F(extended_qp, send) {
  ASSERT_EQ(post_receive(pair_.b.qp.get(), 9, {there_.sge()}), 0);
  ASSERT_EQ(post(1,
                 [&] {
                   ibv_wr_send(qp_);
                   from(100, 2000);
                 }),
            0);

  const auto sent = wait_for_success(cq_);
  EXPECT_EQ(sent.wr_id, 1U);
  EXPECT_EQ(sent.opcode, IBV_WC_SEND);
  const auto got = wait_for_success(pair_.b.recv_cq.get());
  EXPECT_EQ(got.wr_id, 9U);
  EXPECT_EQ(got.byte_len, 2000U);
  EXPECT_EQ(got.wc_flags, 0U);
  EXPECT_TRUE(same_bytes(there_.bytes(0, 2000), here_.bytes(100, 2000)));
}

TEST_F(extended_qp, send_with_immediate) {
  ASSERT_EQ(post_receive(pair_.b.qp.get(), 9, {there_.sge()}), 0);
  ASSERT_EQ(post(1,
                 [&] {
                   ibv_wr_send_imm(qp_, htobe32(0x12345678));
                   from(0, 3);
                 }),
            0);

  wait_for_success(cq_);
  const auto got = wait_for_success(pair_.b.recv_cq.get());
  EXPECT_EQ(got.wc_flags, unsigned{IBV_WC_WITH_IMM});
  EXPECT_EQ(be32toh(got.imm_data), 0x12345678U);
  EXPECT_EQ(got.byte_len, 3U);
}

TEST_F(extended_qp, write_and_read) {
  ASSERT_EQ(post(1,
                 [&] {
                   ibv_wr_rdma_write(qp_, there_.rkey(), there_.address(1));
                   from(0, 1500);
                 }),
            0);
  EXPECT_EQ(wait_for_success(cq_).opcode, IBV_WC_RDMA_WRITE);
  EXPECT_TRUE(same_bytes(there_.bytes(1, 1500), here_.bytes(0, 1500)));
  EXPECT_TRUE(all_zero(there_.bytes(1501, 2595)));

  ASSERT_EQ(post(2,
                 [&] {
                   ibv_wr_rdma_read(qp_, there_.rkey(), there_.address(1));
                   from(2000, 1500);
                 }),
            0);
  const auto got = wait_for_success(cq_);
  EXPECT_EQ(got.opcode, IBV_WC_RDMA_READ);
  EXPECT_EQ(got.byte_len, 1500U);
  EXPECT_TRUE(same_bytes(here_.bytes(2000, 1500), here_.bytes(0, 1500)));
}

TEST_F(extended_qp, write_with_immediate) {
  ASSERT_EQ(post_receive(pair_.b.qp.get(), 4, {}), 0);
  ASSERT_EQ(post(1,
                 [&] {
                   ibv_wr_rdma_write_imm(qp_, there_.rkey(), there_.address(), htobe32(5));
                   from(0, 2500);
                 }),
            0);

  EXPECT_EQ(wait_for_success(cq_).opcode, IBV_WC_RDMA_WRITE);
  const auto got = wait_for_success(pair_.b.recv_cq.get());
  EXPECT_EQ(got.opcode, IBV_WC_RECV_RDMA_WITH_IMM);
  EXPECT_EQ(got.wr_id, 4U);
  EXPECT_EQ(got.byte_len, 2500U);
  EXPECT_EQ(be32toh(got.imm_data), 5U);
  EXPECT_TRUE(same_bytes(there_.bytes(0, 2500), here_.bytes(0, 2500)));
}

TEST_F(extended_qp, atomics) {
  std::uint64_t cell = 40;
  std::memcpy(there_.bytes().data(), &cell, sizeof cell);
  const auto value_at = [](std::span<std::byte> bytes) {
    std::uint64_t value = 0;
    std::memcpy(&value, bytes.data(), sizeof value);
    return value;
  };

  ASSERT_EQ(post(1,
                 [&] {
                   ibv_wr_atomic_fetch_add(qp_, there_.rkey(), there_.address(), 2);
                   from(0, 8);
                 }),
            0);
  EXPECT_EQ(wait_for_success(cq_).opcode, IBV_WC_FETCH_ADD);
  EXPECT_EQ(value_at(here_.bytes()), 40U);
  EXPECT_EQ(value_at(there_.bytes()), 42U);

  ASSERT_EQ(post(2,
                 [&] {
                   ibv_wr_atomic_cmp_swp(qp_, there_.rkey(), there_.address(), 41, 7);
                   from(0, 8);
                 }),
            0);
  EXPECT_EQ(wait_for_success(cq_).opcode, IBV_WC_COMP_SWAP);
  EXPECT_EQ(value_at(here_.bytes()), 42U) << "it is told what was there";
  EXPECT_EQ(value_at(there_.bytes()), 42U) << "which was not what it compared with";

  ASSERT_EQ(post(3,
                 [&] {
                   ibv_wr_atomic_cmp_swp(qp_, there_.rkey(), there_.address(), 42, 7);
                   from(0, 8);
                 }),
            0);
  wait_for_success(cq_);
  EXPECT_EQ(value_at(there_.bytes()), 7U);
}

TEST_F(extended_qp, inline_data_needs_no_registration_and_is_taken_at_once) {
  std::array<char, 8> text{"inline!"};
  ASSERT_EQ(post(1,
                 [&] {
                   ibv_wr_rdma_write(qp_, there_.rkey(), there_.address());
                   ibv_wr_set_inline_data(qp_, text.data(), text.size());
                   text.fill('x');
                 }),
            0);

  wait_for_success(cq_);
  EXPECT_EQ(std::memcmp(there_.bytes().data(), "inline!", 8), 0);
}

TEST_F(extended_qp, inline_data_is_gathered_from_a_list) {
  std::array<char, 3> one{'a', 'b', 'c'};
  std::array<char, 2> two{'d', 'e'};
  const std::array<ibv_data_buf, 3> list{{{.addr = one.data(), .length = 3},
                                          {.addr = nullptr, .length = 0},
                                          {.addr = two.data(), .length = 2}}};
  ASSERT_EQ(post(1,
                 [&] {
                   ibv_wr_rdma_write(qp_, there_.rkey(), there_.address());
                   ibv_wr_set_inline_data_list(qp_, list.size(), list.data());
                 }),
            0);

  wait_for_success(cq_);
  EXPECT_EQ(std::memcmp(there_.bytes().data(), "abcde", 6), 0);
}

TEST_F(extended_qp, elements_are_gathered_and_scattered) {
  const std::array<ibv_sge, 3> list{here_.sge(10, 1000), here_.sge(2000, 1), here_.sge(1500, 99)};
  ASSERT_EQ(post(1,
                 [&] {
                   ibv_wr_rdma_write(qp_, there_.rkey(), there_.address());
                   ibv_wr_set_sge_list(qp_, list.size(), list.data());
                 }),
            0);
  wait_for_success(cq_);
  EXPECT_TRUE(same_bytes(there_.bytes(0, 1000), here_.bytes(10, 1000)));
  EXPECT_TRUE(same_bytes(there_.bytes(1000, 1), here_.bytes(2000, 1)));
  EXPECT_TRUE(same_bytes(there_.bytes(1001, 99), here_.bytes(1500, 99)));
}

TEST_F(extended_qp, windows_are_bound_and_invalidated) {
  // b offers a window, a writes through it; then a's message ends it.
  auto* const owner = ibv_qp_to_qp_ex(pair_.b.qp.get());
  const auto mw = own(ibv_alloc_mw(pair_.b.domain(), IBV_MW_TYPE_2));
  const auto offer = [&](std::uint32_t key) {
    const ibv_mw_bind_info what{.mr = there_.mr.get(),
                                .addr = there_.address(),
                                .length = 64,
                                .mw_access_flags = IBV_ACCESS_REMOTE_WRITE};
    ibv_wr_start(owner);
    owner->wr_id = key;
    owner->wr_flags = IBV_SEND_SIGNALED;
    ibv_wr_bind_mw(owner, mw.get(), key, &what);
    ASSERT_EQ(ibv_wr_complete(owner), 0);
    const auto done = wait_for_success(pair_.b.send_cq.get());
    EXPECT_EQ(done.opcode, IBV_WC_BIND_MW);
    EXPECT_EQ(done.wr_id, key);
  };
  const auto first = ibv_inc_rkey(mw->rkey);
  offer(first);
  ASSERT_EQ(post(1,
                 [&] {
                   ibv_wr_rdma_write(qp_, first, there_.address());
                   from(0, 64);
                 }),
            0);
  wait_for_success(cq_);
  EXPECT_TRUE(same_bytes(there_.bytes(0, 64), here_.bytes(0, 64)));

  ASSERT_EQ(post_receive(pair_.b.qp.get(), 1, {}), 0);
  ASSERT_EQ(post(2, [&] { ibv_wr_send_inv(qp_, first); }), 0);
  wait_for_success(cq_);
  const auto told = wait_for_success(pair_.b.recv_cq.get());
  EXPECT_EQ(told.wc_flags, unsigned{IBV_WC_WITH_INV});
  EXPECT_EQ(told.invalidated_rkey, first);

  const auto second = ibv_inc_rkey(first);
  offer(second);
  ibv_wr_start(owner);
  owner->wr_id = 3;
  ibv_wr_local_inv(owner, second);
  ASSERT_EQ(ibv_wr_complete(owner), 0);
  EXPECT_EQ(wait_for_success(pair_.b.send_cq.get()).opcode, IBV_WC_LOCAL_INV);
}

TEST_F(extended_qp, several_requests_are_posted_together_and_in_order) {
  ibv_wr_start(qp_);
  for (std::uint64_t id = 0; id < 10; ++id) {
    begin(id);
    ibv_wr_rdma_write(qp_, there_.rkey(), there_.address(id * 8));
    from(id * 8, 8);
  }
  ASSERT_EQ(ibv_wr_complete(qp_), 0);

  const auto done = wait_for_successes(cq_, 10);
  for (std::uint64_t id = 0; id < 10; ++id) EXPECT_EQ(done[id].wr_id, id);
  EXPECT_TRUE(same_bytes(there_.bytes(0, 80), here_.bytes(0, 80)));
}

TEST_F(extended_qp, an_aborted_batch_leaves_nothing) {
  ibv_wr_start(qp_);
  begin(1);
  ibv_wr_rdma_write(qp_, there_.rkey(), there_.address());
  from(0, 8);
  ibv_wr_abort(qp_);

  ASSERT_EQ(post(2,
                 [&] {
                   ibv_wr_rdma_write(qp_, there_.rkey(), there_.address(100));
                   from(0, 8);
                 }),
            0);
  EXPECT_EQ(wait_for_success(cq_).wr_id, 2U);
  EXPECT_TRUE(completions_in(cq_).empty());
  EXPECT_TRUE(all_zero(there_.bytes(0, 100)));
  EXPECT_TRUE(same_bytes(there_.bytes(100, 8), here_.bytes(0, 8)));
}

TEST_F(extended_qp, while_a_batch_is_built_its_thread_may_poll_and_use_other_queue_pairs) {
  auto* const peer = pair_.b.qp.get();
  auto* const peer_ex = ibv_qp_to_qp_ex(peer);
  ASSERT_EQ(post_receive(pair_.a.qp.get(), 8, {here_.sge(2048, 1024)}), 0);
  ASSERT_EQ(post_receive(peer, 9, {there_.sge()}), 0);
  ibv_wr_start(qp_);
  begin(1);
  ibv_wr_send(qp_);
  from(0, 100);

  // A batch in the other direction meanwhile: its message waits until this one is posted.
  ibv_wr_start(peer_ex);
  peer_ex->wr_id = 2;
  peer_ex->wr_flags = IBV_SEND_SIGNALED;
  ibv_wr_send(peer_ex);
  ibv_wr_set_sge(peer_ex, there_.mr->lkey, there_.address(3000), 50);
  ASSERT_EQ(ibv_wr_complete(peer_ex), 0);
  ibv_wc wc{};
  EXPECT_EQ(ibv_poll_cq(cq_, 1, &wc), 0);
  ASSERT_EQ(ibv_wr_complete(qp_), 0);

  EXPECT_EQ(wait_for_success(cq_).wr_id, 1U);
  EXPECT_EQ(wait_for_success(pair_.b.send_cq.get()).wr_id, 2U);
  EXPECT_EQ(wait_for_success(pair_.a.recv_cq.get()).wr_id, 8U);
  EXPECT_EQ(wait_for_success(pair_.b.recv_cq.get()).wr_id, 9U);
}

TEST_F(extended_qp, an_empty_batch_is_no_error) {
  ibv_wr_start(qp_);
  EXPECT_EQ(ibv_wr_complete(qp_), 0);
  EXPECT_TRUE(completions_in(cq_).empty());
}

TEST_F(extended_qp, a_batch_that_does_not_fit_is_refused_as_a_whole) {
  const auto room = attributes_of(pair_.a.qp.get()).cap.max_send_wr;
  const auto batch = [&](std::uint32_t count) {
    ibv_wr_start(qp_);
    for (std::uint32_t id = 0; id < count; ++id) {
      begin(id);
      ibv_wr_rdma_write(qp_, there_.rkey(), there_.address());
      from(0, 8);
    }
    return ibv_wr_complete(qp_);
  };

  EXPECT_EQ(batch(room + 1), ENOMEM);
  EXPECT_TRUE(completions_in(cq_).empty());
  EXPECT_TRUE(all_zero(there_.bytes(0, 8)));

  ASSERT_EQ(batch(room), 0);
  wait_for_successes(cq_, room);
}

TEST_F(extended_qp, too_much_inline_data_or_too_many_elements_refuse_the_batch) {
  const auto limits = attributes_of(pair_.a.qp.get()).cap;
  std::vector<char> large(limits.max_inline_data + 1);
  EXPECT_EQ(post(1,
                 [&] {
                   ibv_wr_rdma_write(qp_, there_.rkey(), there_.address());
                   ibv_wr_set_inline_data(qp_, large.data(), large.size());
                 }),
            ENOMEM);
  std::vector<ibv_sge> many(limits.max_send_sge + 1, here_.sge(0, 8));
  EXPECT_EQ(post(2,
                 [&] {
                   ibv_wr_rdma_write(qp_, there_.rkey(), there_.address());
                   ibv_wr_set_sge_list(qp_, many.size(), many.data());
                 }),
            EINVAL);
  EXPECT_TRUE(completions_in(cq_).empty());

  ASSERT_EQ(post(3,
                 [&] {
                   ibv_wr_rdma_write(qp_, there_.rkey(), there_.address());
                   ibv_wr_set_inline_data(qp_, large.data(), large.size() - 1);
                 }),
            0);
  EXPECT_EQ(wait_for_success(cq_).wr_id, 3U);
}

TEST_F(extended_qp, before_rts_a_batch_is_refused) {
  const side unconnected(pair_.context, {.send_ops = reliable_ops});
  auto* const qp = ibv_qp_to_qp_ex(unconnected.qp.get());

  ibv_wr_start(qp);
  ibv_wr_send(qp);
  EXPECT_EQ(ibv_wr_complete(qp), EINVAL);
}

TEST_F(extended_qp, an_unsignaled_request_is_silent_and_a_fenced_one_waits) {
  ibv_wr_start(qp_);
  qp_->wr_id = 1;
  qp_->wr_flags = 0;
  ibv_wr_rdma_write(qp_, there_.rkey(), there_.address());
  from(0, 64);
  qp_->wr_id = 2;
  ibv_wr_rdma_read(qp_, there_.rkey(), there_.address());
  from(100, 64);
  qp_->wr_id = 3;
  qp_->wr_flags = IBV_SEND_SIGNALED | IBV_SEND_FENCE;
  ibv_wr_rdma_write(qp_, there_.rkey(), there_.address(1000));
  from(100, 64);
  ASSERT_EQ(ibv_wr_complete(qp_), 0);

  EXPECT_EQ(wait_for_success(cq_).wr_id, 3U);
  EXPECT_TRUE(completions_in(cq_).empty());
  EXPECT_TRUE(same_bytes(there_.bytes(1000, 64), here_.bytes(0, 64)));
}

TEST(extended_qp_types, operations_that_a_type_does_not_have_are_not_supported) {
  const auto context = open_device();
  const auto refusal = [&](ibv_qp_type type, std::uint64_t ops) {
    try {
      const side made(context.get(), {.type = type, .send_ops = ops});
    } catch (const std::system_error& failure) {
      return failure.code().value();
    }
    return 0;
  };
  EXPECT_EQ(refusal(IBV_QPT_RC, reliable_ops), 0);
  EXPECT_EQ(refusal(IBV_QPT_RC, IBV_QP_EX_WITH_TSO), EOPNOTSUPP);
  EXPECT_EQ(refusal(IBV_QPT_UC, IBV_QP_EX_WITH_RDMA_WRITE), 0);
  EXPECT_EQ(refusal(IBV_QPT_UC, IBV_QP_EX_WITH_RDMA_READ), EOPNOTSUPP);
  EXPECT_EQ(refusal(IBV_QPT_UD, datagram_ops), 0);
  EXPECT_EQ(refusal(IBV_QPT_UD, IBV_QP_EX_WITH_RDMA_WRITE), EOPNOTSUPP);
}

TEST(extended_qp_types, a_datagram_is_given_its_address) {
  const connected_pair pair({.type = IBV_QPT_UD, .send_ops = datagram_ops});
  const auto ah = address_of_neighbour(pair.a.domain());
  auto* const qp = ibv_qp_to_qp_ex(pair.a.qp.get());
  buffer from(pair.a.domain(), 100);
  buffer into(pair.b.domain(), grh_bytes + 100);
  fill_pattern(from.bytes(), 1);
  ASSERT_EQ(post_receive(pair.b.qp.get(), 1, {into.sge()}), 0);

  ibv_wr_start(qp);
  qp->wr_id = 2;
  qp->wr_flags = IBV_SEND_SIGNALED;
  ibv_wr_send_imm(qp, htobe32(3));
  ibv_wr_set_ud_addr(qp, ah.get(), pair.b.qp->qp_num, queue_key);
  ibv_wr_set_sge(qp, from.mr->lkey, from.address(), 100);
  ASSERT_EQ(ibv_wr_complete(qp), 0);

  wait_for_success(pair.a.send_cq.get());
  const auto got = wait_for_success(pair.b.recv_cq.get());
  EXPECT_EQ(got.byte_len, grh_bytes + 100);
  EXPECT_EQ(got.src_qp, pair.a.qp->qp_num);
  EXPECT_EQ(be32toh(got.imm_data), 3U);
  EXPECT_TRUE(same_bytes(into.bytes(grh_bytes, 100), from.bytes()));
}

}  // namespace
}  // namespace softverbs::device_tests
