// Requests that no requester sends, put into a responder by hand (IBTA 9.7.4.1): the peer is told
// what is wrong with them.

#include <array>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string_view>
#include <vector>

#include <engine/fault_plan.hpp>
#include <engine/queue_pair.hpp>
#include <gtest/gtest.h>
#include <infiniband/verbs.h>
#include <verbs/soft_verbs.hpp>
#include <wire/packet.hpp>

namespace softverbs::engine {
namespace {

constexpr std::uint32_t first_psn = 0xff'fffe;
constexpr unsigned everything = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |
                                IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC;

/// Two connected queue pairs; what `a` sends is lost, so that forged requests take its place.
class forged_request : public ::testing::Test {
 protected:
  void SetUp() override {
    for (auto* const device : verbs::list_devices()) {
      if (std::string_view(device->name) == "soft0") context_ = verbs::open_device(device);
    }
    ASSERT_NE(context_, nullptr);
    pd_ = verbs::alloc_pd(context_);
    cq_ = verbs::create_cq(context_, 16, nullptr, nullptr, 0);
    mr_ = verbs::reg_mr(pd_, memory_.data(), memory_.size(), address(), everything);
    a_ = create();
    b_ = create();
    connect(a_, b_->qp_num);
    connect(b_, a_->qp_num);
    ASSERT_TRUE(fault_plan::of_process().replace("lose op=WRITE; lose op=READ").empty());
  }
  void TearDown() override {
    EXPECT_TRUE(fault_plan::of_process().replace("").empty());
    EXPECT_EQ(verbs::destroy_qp(a_), 0);
    EXPECT_EQ(verbs::destroy_qp(b_), 0);
    EXPECT_EQ(verbs::dereg_mr(mr_), 0);
    EXPECT_EQ(verbs::destroy_cq(cq_), 0);
    EXPECT_EQ(verbs::dealloc_pd(pd_), 0);
    EXPECT_EQ(verbs::close_device(context_), 0);
  }

  /// The status of a's request, in whose place b has received the forged one.
  ibv_wc_status refusal_of(ibv_wr_opcode opcode, const wire::headers& forged) {
    post(opcode);
    receive(forged);
    ibv_wc wc{};
    EXPECT_EQ(ibv_poll_cq(cq_, 1, &wc), 1);
    EXPECT_EQ(queue_pair::of(b_).attributes.qp_state, IBV_QPS_ERR);
    return wc.status;
  }
  [[nodiscard]] wire::headers header(wire::operation op) const {
    wire::headers made{
        .op = op, .ack_request = true, .destination_qpn = b_->qp_num, .psn = first_psn};
    made.remote_address = address();
    made.rkey = mr_->rkey;
    return made;
  }
  [[nodiscard]] std::uint64_t address() const {
    return reinterpret_cast<std::uintptr_t>(memory_.data());
  }

 private:
  ibv_qp* create() {
    ibv_qp_init_attr_ex wanted{};
    wanted.send_cq = wanted.recv_cq = cq_;
    wanted.cap = {.max_send_wr = 4,
                  .max_recv_wr = 4,
                  .max_send_sge = 1,
                  .max_recv_sge = 1,
                  .max_inline_data = 0};
    wanted.qp_type = IBV_QPT_RC;
    wanted.pd = pd_;
    wanted.comp_mask = IBV_QP_INIT_ATTR_PD;
    return verbs_get_ctx(context_)->create_qp_ex(context_, &wanted);
  }
  void connect(ibv_qp* qp, std::uint32_t peer) {
    ibv_qp_attr wanted{};
    wanted.qp_state = IBV_QPS_INIT;
    wanted.port_num = 1;
    wanted.qp_access_flags =
        IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC;
    ASSERT_EQ(
        verbs::modify_qp(qp, &wanted,
                         IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS),
        0);
    wanted.qp_state = IBV_QPS_RTR;
    wanted.ah_attr.is_global = 1;
    wanted.ah_attr.port_num = 1;
    wanted.ah_attr.grh.sgid_index = 1;
    wanted.ah_attr.grh.traffic_class = 0x68;
    ASSERT_EQ(verbs::query_gid(context_, 1, 1, &wanted.ah_attr.grh.dgid), 0);
    wanted.path_mtu = IBV_MTU_1024;
    wanted.dest_qp_num = peer;
    wanted.rq_psn = wanted.sq_psn = first_psn;
    wanted.max_dest_rd_atomic = wanted.max_rd_atomic = 4;
    ASSERT_EQ(
        verbs::modify_qp(qp, &wanted,
                         IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
                             IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER),
        0);
    wanted.qp_state = IBV_QPS_RTS;
    wanted.retry_cnt = wanted.rnr_retry = 7;
    wanted.timeout = 20;
    ASSERT_EQ(verbs::modify_qp(qp, &wanted,
                               IBV_QP_STATE | IBV_QP_SQ_PSN | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT |
                                   IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC),
              0);
  }
  void post(ibv_wr_opcode opcode) {
    ibv_sge element{.addr = address(), .length = 8, .lkey = mr_->lkey};
    ibv_send_wr request{};
    request.opcode = opcode;
    request.send_flags = IBV_SEND_SIGNALED;
    request.sg_list = &element;
    request.num_sge = 1;
    request.wr.rdma = {.remote_addr = address(), .rkey = mr_->rkey};
    ibv_send_wr* bad = nullptr;
    ASSERT_EQ(ibv_post_send(a_, &request, &bad), 0);
  }
  void receive(const wire::headers& forged) {
    auto& qp = queue_pair::of(b_);
    {
      const std::lock_guard lock(qp.where->mutex);
      qp.receive({.packet = {.header = forged},
                  .source = qp.ends.destination,
                  .destination = qp.ends.source,
                  .came = inbound::path::in_process});
      qp.after_receiving(false);
    }
    deferred_work::run();
  }

 protected:
  alignas(8) std::array<std::byte, 64> memory_{};
  ibv_context* context_ = nullptr;
  ibv_pd* pd_ = nullptr;
  ibv_cq* cq_ = nullptr;
  ibv_mr* mr_ = nullptr;
  ibv_qp* a_ = nullptr;
  ibv_qp* b_ = nullptr;
};

TEST_F(forged_request, with_a_reserved_opcode_is_invalid) {  // 9.7.4.1.2
  EXPECT_EQ(refusal_of(IBV_WR_RDMA_WRITE, header(static_cast<wire::operation>(0x15))),
            IBV_WC_REM_INV_REQ_ERR);
}

TEST_F(forged_request, for_a_read_of_more_than_two_gigabytes_is_invalid) {  // 9.7.4.1.6
  auto forged = header(wire::operation::read_request);
  forged.dma_length = 0x8000'0001U;
  EXPECT_EQ(refusal_of(IBV_WR_RDMA_READ, forged), IBV_WC_REM_INV_REQ_ERR);
}

TEST_F(forged_request, for_a_read_within_the_limit_is_about_the_region) {
  auto forged = header(wire::operation::read_request);
  forged.dma_length = 0x8000'0000U;
  EXPECT_EQ(refusal_of(IBV_WR_RDMA_READ, forged), IBV_WC_REM_ACCESS_ERR);
}

TEST_F(forged_request, for_a_write_of_more_than_two_gigabytes_is_invalid) {
  auto forged = header(wire::operation::write_first);
  forged.dma_length = 0x8000'0001U;
  EXPECT_EQ(refusal_of(IBV_WR_RDMA_WRITE, forged), IBV_WC_REM_INV_REQ_ERR);
}

TEST_F(forged_request, finds_its_way_back_with_the_traffic_class_of_the_path) {
  EXPECT_EQ(queue_pair::of(a_).connected->flow.traffic_class, 0x68);
}

}  // namespace
}  // namespace softverbs::engine
