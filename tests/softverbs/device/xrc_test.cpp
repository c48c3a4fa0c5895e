// XRC: queue pairs that send to any shared receive queue of a domain.

#include <cerrno>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <vector>

#include <endian.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <infiniband/verbs.h>
#include <sys/mman.h>
#include <unistd.h>

#include "connected_pair.hpp"
#include "device/byte_pattern.hpp"
#include "owned.hpp"
#include "requests.hpp"
#include "waiting.hpp"

namespace softverbs::device_tests {

namespace {

using rdmaxx::device_tests::fill_pattern;
using rdmaxx::device_tests::same_bytes;

owned<ibv_xrcd> open_domain(ibv_context* context, int fd = -1) {
  ibv_xrcd_init_attr wanted{};
  wanted.comp_mask = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS;
  wanted.fd = fd;
  wanted.oflags = O_CREAT;
  return own(ibv_open_xrcd(context, &wanted));
}

owned<ibv_srq> make_srq(ibv_pd* pd, ibv_xrcd* domain, ibv_cq* cq) {
  ibv_srq_init_attr_ex wanted{};
  wanted.attr = {.max_wr = 32, .max_sge = 2, .srq_limit = 0};
  wanted.comp_mask =
      IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_XRCD | IBV_SRQ_INIT_ATTR_CQ | IBV_SRQ_INIT_ATTR_PD;
  wanted.srq_type = IBV_SRQT_XRC;
  wanted.pd = pd;
  wanted.xrcd = domain;
  wanted.cq = cq;
  return own(ibv_create_srq_ex(pd->context, &wanted));
}

std::uint32_t number_of(ibv_srq* srq) {
  std::uint32_t number = 0;
  EXPECT_EQ(ibv_get_srq_num(srq, &number), 0);
  return number;
}

/// A sender that is connected to a domain with two shared receive queues.
class xrc : public testing::Test {
 protected:
  void SetUp() override {
    ibv_qp_init_attr_ex target{};
    target.qp_type = IBV_QPT_XRC_RECV;
    target.comp_mask = IBV_QP_INIT_ATTR_XRCD;
    target.xrcd = domain_.get();
    receiver_ = own(ibv_create_qp_ex(context_.get(), &target));

    ibv_qp_init_attr_ex initiator{};
    initiator.qp_type = IBV_QPT_XRC_SEND;
    initiator.send_cq = send_cq_.get();
    initiator.cap = {.max_send_wr = 32,
                     .max_recv_wr = 0,
                     .max_send_sge = 2,
                     .max_recv_sge = 0,
                     .max_inline_data = 64};
    initiator.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
    initiator.send_ops_flags = IBV_QP_EX_WITH_SEND;
    initiator.pd = sender_pd_.get();
    sender_ = own(ibv_create_qp_ex(context_.get(), &initiator));

    connect(receiver_.get(), sender_->qp_num);
    connect(sender_.get(), receiver_->qp_num);
    fill_pattern(here_.bytes(), 1);
  }

  owned<ibv_context> context_ = open_device();
  owned<ibv_xrcd> domain_ = open_domain(context_.get());
  owned<ibv_pd> sender_pd_ = own(ibv_alloc_pd(context_.get()));
  owned<ibv_pd> pd_ = own(ibv_alloc_pd(context_.get()));
  owned<ibv_cq> send_cq_ = own(ibv_create_cq(context_.get(), 64, nullptr, nullptr, 0));
  owned<ibv_cq> cq_ = own(ibv_create_cq(context_.get(), 64, nullptr, nullptr, 0));
  owned<ibv_cq> other_cq_ = own(ibv_create_cq(context_.get(), 64, nullptr, nullptr, 0));
  owned<ibv_srq> srq_ = make_srq(pd_.get(), domain_.get(), cq_.get());
  owned<ibv_srq> other_srq_ = make_srq(pd_.get(), domain_.get(), other_cq_.get());
  buffer here_{sender_pd_.get(), 8192};
  buffer there_{pd_.get(), 8192};
  owned<ibv_qp> receiver_;
  owned<ibv_qp> sender_;
};

TEST_F(xrc, a_message_arrives_in_the_queue_that_it_names) {
  ASSERT_NE(number_of(srq_.get()), number_of(other_srq_.get()));
  ASSERT_EQ(post_receive(srq_.get(), 1, {there_.sge(0, 4000)}), 0);
  ASSERT_EQ(post_receive(other_srq_.get(), 2, {there_.sge(4000, 4000)}), 0);

  ASSERT_EQ(send(3, {here_.sge(0, 3000)}).to_srq(number_of(other_srq_.get())).post(sender_.get()),
            0);
  const auto second = wait_for_success(other_cq_.get());
  EXPECT_EQ(second.wr_id, 2U);
  EXPECT_EQ(second.opcode, IBV_WC_RECV);
  EXPECT_EQ(second.byte_len, 3000U);
  EXPECT_EQ(second.qp_num, receiver_->qp_num);
  EXPECT_TRUE(same_bytes(there_.bytes(4000, 3000), here_.bytes(0, 3000)));
  EXPECT_TRUE(completions_in(cq_.get()).empty());

  ASSERT_EQ(send(4, {here_.sge(100, 10)}).imm(9).to_srq(number_of(srq_.get())).post(sender_.get()),
            0);
  const auto first = wait_for_success(cq_.get());
  EXPECT_EQ(first.wr_id, 1U);
  EXPECT_EQ(first.wc_flags, unsigned{IBV_WC_WITH_IMM});
  EXPECT_EQ(be32toh(first.imm_data), 9U);
  EXPECT_TRUE(same_bytes(there_.bytes(0, 10), here_.bytes(100, 10)));
  const auto sent = wait_for_successes(send_cq_.get(), 2);
  EXPECT_EQ(sent[0].wr_id, 3U);
  EXPECT_EQ(sent[1].wr_id, 4U);
}

TEST_F(xrc, writes_reads_and_atomics) {
  const auto srq = number_of(srq_.get());
  ASSERT_EQ(write(1, {here_.sge(0, 5000)}, there_.address(), there_.rkey())
                .to_srq(srq)
                .post(sender_.get()),
            0);
  EXPECT_EQ(wait_for_success(send_cq_.get()).opcode, IBV_WC_RDMA_WRITE);
  EXPECT_TRUE(same_bytes(there_.bytes(0, 5000), here_.bytes(0, 5000)));

  ASSERT_EQ(read(2, {here_.sge(5000, 3000)}, there_.address(), there_.rkey())
                .to_srq(srq)
                .post(sender_.get()),
            0);
  EXPECT_EQ(wait_for_success(send_cq_.get()).opcode, IBV_WC_RDMA_READ);
  EXPECT_TRUE(same_bytes(here_.bytes(5000, 3000), there_.bytes(0, 3000)));

  ASSERT_EQ(post_receive(srq_.get(), 7, {}), 0);
  ASSERT_EQ(write(3, {here_.sge(0, 1)}, there_.address(6000), there_.rkey())
                .imm(8)
                .to_srq(srq)
                .post(sender_.get()),
            0);
  const auto told = wait_for_success(cq_.get());
  EXPECT_EQ(told.opcode, IBV_WC_RECV_RDMA_WITH_IMM);
  EXPECT_EQ(told.wr_id, 7U);
  EXPECT_EQ(be32toh(told.imm_data), 8U);
  wait_for_success(send_cq_.get());

  std::uint64_t cell = 5;
  std::memcpy(there_.bytes(8, 8).data(), &cell, sizeof cell);
  ASSERT_EQ(fetch_add(4, here_.sge(0, 8), there_.address(8), there_.rkey(), 3)
                .to_srq(srq)
                .post(sender_.get()),
            0);
  EXPECT_EQ(wait_for_success(send_cq_.get()).opcode, IBV_WC_FETCH_ADD);
  std::memcpy(&cell, there_.bytes(8, 8).data(), sizeof cell);
  EXPECT_EQ(cell, 8U);
}

TEST_F(xrc, the_extended_interface_names_the_queue) {
  auto* const qp = ibv_qp_to_qp_ex(sender_.get());
  ASSERT_EQ(post_receive(srq_.get(), 1, {there_.sge()}), 0);

  ibv_wr_start(qp);
  qp->wr_id = 2;
  qp->wr_flags = IBV_SEND_SIGNALED;
  ibv_wr_send(qp);
  ibv_wr_set_xrc_srqn(qp, number_of(srq_.get()));
  ibv_wr_set_sge(qp, here_.mr->lkey, here_.address(), 10);
  ASSERT_EQ(ibv_wr_complete(qp), 0);

  EXPECT_EQ(wait_for_success(cq_.get()).byte_len, 10U);
  wait_for_success(send_cq_.get());
}

TEST_F(xrc, memory_of_another_protection_domain_than_that_of_the_queue_is_out_of_reach) {
  const buffer elsewhere(sender_pd_.get(), 64);
  ASSERT_EQ(write(1, {here_.sge(0, 8)}, elsewhere.address(), elsewhere.rkey())
                .to_srq(number_of(srq_.get()))
                .post(sender_.get()),
            0);
  EXPECT_EQ(wait_for_one(send_cq_.get()).status, IBV_WC_REM_ACCESS_ERR);
}

TEST_F(xrc, a_queue_that_does_not_exist_is_an_invalid_request) {
  ASSERT_EQ(send(1, {here_.sge(0, 8)}).to_srq(4711).post(sender_.get()), 0);

  EXPECT_EQ(wait_for_one(send_cq_.get()).status, IBV_WC_REM_INV_REQ_ERR);
  EXPECT_EQ(state_of(sender_.get()), IBV_QPS_ERR);
}

TEST_F(xrc, a_queue_of_another_domain_does_not_exist_here) {
  const auto other_domain = open_domain(context_.get());
  const auto hidden = make_srq(pd_.get(), other_domain.get(), cq_.get());
  ASSERT_EQ(send(1, {here_.sge(0, 8)}).to_srq(number_of(hidden.get())).post(sender_.get()), 0);

  EXPECT_EQ(wait_for_one(send_cq_.get()).status, IBV_WC_REM_INV_REQ_ERR);
}

TEST_F(xrc, a_sender_waits_for_a_receive) {
  ASSERT_EQ(send(1, {here_.sge(0, 2000)}).to_srq(number_of(srq_.get())).post(sender_.get()), 0);
  ASSERT_TRUE(completions_in(send_cq_.get()).empty());

  ASSERT_EQ(post_receive(srq_.get(), 2, {there_.sge()}), 0);

  EXPECT_EQ(wait_for_success(cq_.get()).byte_len, 2000U);
  wait_for_success(send_cq_.get());
  EXPECT_TRUE(same_bytes(there_.bytes(0, 2000), here_.bytes(0, 2000)));
}

TEST_F(xrc, what_is_in_use_cannot_be_closed) {
  EXPECT_EQ(ibv_close_xrcd(domain_.get()), EBUSY);
  const auto unused = open_domain(context_.get());
  const auto user = make_srq(pd_.get(), unused.get(), cq_.get());
  EXPECT_EQ(ibv_close_xrcd(unused.get()), EBUSY);
  EXPECT_EQ(ibv_destroy_cq(cq_.get()), EBUSY);
  EXPECT_EQ(ibv_dealloc_pd(pd_.get()), EBUSY);
}

TEST_F(xrc, a_target_neither_sends_nor_receives_by_itself) {
  EXPECT_EQ(send(1, {here_.sge(0, 8)}).post(receiver_.get()), EINVAL);
  EXPECT_EQ(post_receive(receiver_.get(), 1, {there_.sge()}), EINVAL);
  EXPECT_EQ(post_receive(sender_.get(), 1, {there_.sge()}), EINVAL);
}

TEST_F(xrc, a_domain_of_a_file_is_the_same_whenever_it_is_opened) {
  const int fd = ::memfd_create("domain", MFD_CLOEXEC);
  ASSERT_GE(fd, 0);
  {
    const auto one = open_domain(context_.get(), fd);
    const auto again = open_domain(context_.get(), fd);
    const auto srq = make_srq(pd_.get(), again.get(), cq_.get());
    ibv_qp_init_attr_ex target{};
    target.qp_type = IBV_QPT_XRC_RECV;
    target.comp_mask = IBV_QP_INIT_ATTR_XRCD;
    target.xrcd = one.get();
    const auto receiver = own(ibv_create_qp_ex(context_.get(), &target));
    connect(receiver.get(), sender_->qp_num);
    ASSERT_EQ(to_state(IBV_QPS_RESET).apply(sender_.get()), 0);
    connect(sender_.get(), receiver->qp_num);
    ASSERT_EQ(post_receive(srq.get(), 5, {there_.sge()}), 0);

    ASSERT_EQ(send(1, {here_.sge(0, 8)}).to_srq(number_of(srq.get())).post(sender_.get()), 0);

    EXPECT_EQ(wait_for_success(cq_.get()).wr_id, 5U);
    wait_for_success(send_cq_.get());
  }
  ::close(fd);
}

TEST_F(xrc, only_queues_of_this_kind_have_a_number) {
  ibv_srq_init_attr wanted{.srq_context = nullptr,
                           .attr = {.max_wr = 4, .max_sge = 1, .srq_limit = 0}};
  const auto plain = own(ibv_create_srq(pd_.get(), &wanted));
  std::uint32_t number = 0;

  EXPECT_EQ(ibv_get_srq_num(plain.get(), &number), EINVAL);
}

}  // namespace
}  // namespace softverbs::device_tests
