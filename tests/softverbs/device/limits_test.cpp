// What the device says it can is what it can, and one more is refused.

#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <deque>

#include <gtest/gtest.h>
#include <infiniband/verbs.h>

#include "connected_pair.hpp"
#include "owned.hpp"

namespace softverbs::device_tests {

namespace {

class limits : public testing::Test {
 protected:
  void SetUp() override { ASSERT_EQ(ibv_query_device(context_.get(), &device_), 0); }

  /// What ibv_create_qp says to a wish.
  template <class Change>
  [[nodiscard]] int refusal(Change change) const {
    ibv_qp_init_attr wanted{};
    wanted.send_cq = wanted.recv_cq = cq_.get();
    wanted.qp_type = IBV_QPT_RC;
    wanted.cap = {.max_send_wr = 1,
                  .max_recv_wr = 1,
                  .max_send_sge = 1,
                  .max_recv_sge = 1,
                  .max_inline_data = 0};
    change(wanted);
    errno = 0;
    const owned<ibv_qp> made(ibv_create_qp(pd_.get(), &wanted));
    return made == nullptr ? errno : 0;
  }
  [[nodiscard]] int srq_refusal(const ibv_srq_attr& attributes) const {
    ibv_srq_init_attr wanted{.srq_context = nullptr, .attr = attributes};
    errno = 0;
    const owned<ibv_srq> made(ibv_create_srq(pd_.get(), &wanted));
    return made == nullptr ? errno : 0;
  }

  owned<ibv_context> context_ = open_device();
  owned<ibv_pd> pd_ = own(ibv_alloc_pd(context_.get()));
  owned<ibv_cq> cq_ = own(ibv_create_cq(context_.get(), 4, nullptr, nullptr, 0));
  ibv_device_attr device_{};
};

TEST_F(limits, the_device_says_what_it_is_without_posing_as_a_vendors) {
  EXPECT_EQ(device_.vendor_id, 0x027376U);
  EXPECT_NE(device_.vendor_id & 0x020000U, 0U) << "an OUI of the locally administered kind";
  EXPECT_NE(device_.vendor_part_id, 0U);
  EXPECT_NE(device_.hw_ver, 0U);
}

TEST_F(limits, of_queue_pairs) {
  const auto requests = static_cast<std::uint32_t>(device_.max_qp_wr);
  const auto elements = static_cast<std::uint32_t>(device_.max_sge);
  EXPECT_EQ(refusal([&](ibv_qp_init_attr& wanted) {
              wanted.cap.max_send_wr = wanted.cap.max_recv_wr = requests;
            }),
            0);
  EXPECT_EQ(refusal([&](ibv_qp_init_attr& wanted) {
              wanted.cap.max_send_sge = wanted.cap.max_recv_sge = elements;
            }),
            0);
  EXPECT_EQ(refusal([&](ibv_qp_init_attr& wanted) { wanted.cap.max_send_wr = requests + 1; }),
            EINVAL);
  EXPECT_EQ(refusal([&](ibv_qp_init_attr& wanted) { wanted.cap.max_recv_wr = requests + 1; }),
            EINVAL);
  EXPECT_EQ(refusal([&](ibv_qp_init_attr& wanted) { wanted.cap.max_send_sge = elements + 1; }),
            EINVAL);
  EXPECT_EQ(refusal([&](ibv_qp_init_attr& wanted) { wanted.cap.max_recv_sge = elements + 1; }),
            EINVAL);
  EXPECT_EQ(refusal([](ibv_qp_init_attr& wanted) { wanted.cap.max_inline_data = 512; }), 0);
  EXPECT_EQ(refusal([](ibv_qp_init_attr& wanted) { wanted.cap.max_inline_data = 1U << 20U; }),
            EINVAL);
  EXPECT_EQ(refusal([](ibv_qp_init_attr& wanted) { wanted.cap = {}; }), 0)
      << "one that neither sends nor receives";
}

TEST_F(limits, of_what_a_queue_pair_needs) {
  EXPECT_EQ(refusal([](ibv_qp_init_attr& wanted) { wanted.send_cq = nullptr; }), EINVAL);
  EXPECT_EQ(refusal([](ibv_qp_init_attr& wanted) { wanted.recv_cq = nullptr; }), EINVAL);
  EXPECT_EQ(refusal([](ibv_qp_init_attr& wanted) { wanted.qp_type = IBV_QPT_RAW_PACKET; }),
            EOPNOTSUPP);
}

TEST_F(limits, of_shared_receive_queues) {
  const auto requests = static_cast<std::uint32_t>(device_.max_srq_wr);
  const auto elements = static_cast<std::uint32_t>(device_.max_srq_sge);
  EXPECT_EQ(srq_refusal({.max_wr = requests, .max_sge = 1, .srq_limit = 0}), 0);
  EXPECT_EQ(srq_refusal({.max_wr = 1, .max_sge = elements, .srq_limit = 0}), 0);
  EXPECT_EQ(srq_refusal({.max_wr = requests + 1, .max_sge = 1, .srq_limit = 0}), EINVAL);
  EXPECT_EQ(srq_refusal({.max_wr = 1, .max_sge = elements + 1, .srq_limit = 0}), EINVAL);
  EXPECT_EQ(srq_refusal({.max_wr = 0, .max_sge = 1, .srq_limit = 0}), EINVAL);
}

// In a process of its own, because settings are read once.
TEST(limits_of_number, are_kept) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  ASSERT_EQ(setenv("SOFTVERBS_MAX_QP", "2", 1), 0);  // NOLINT(concurrency-mt-unsafe)
  ASSERT_EQ(setenv("SOFTVERBS_MAX_CQ", "3", 1), 0);  // NOLINT(concurrency-mt-unsafe)
  const auto reach_the_limits = [] {
    const auto context = open_device();
    {
      std::deque<owned<ibv_cq>> queues;
      while (auto* made = ibv_create_cq(context.get(), 1, nullptr, nullptr, 0)) {
        queues.emplace_back(made);
      }
      EXPECT_EQ(errno, ENOMEM);
      EXPECT_EQ(queues.size(), 3U);
    }
    const auto pd = own(ibv_alloc_pd(context.get()));
    const auto cq = own(ibv_create_cq(context.get(), 4, nullptr, nullptr, 0));
    ibv_qp_init_attr wanted{};
    wanted.send_cq = wanted.recv_cq = cq.get();
    wanted.qp_type = IBV_QPT_RC;
    auto first = own(ibv_create_qp(pd.get(), &wanted));
    const auto second = own(ibv_create_qp(pd.get(), &wanted));
    EXPECT_EQ(ibv_create_qp(pd.get(), &wanted), nullptr);
    EXPECT_EQ(errno, ENOMEM);
    first.reset();
    first = own(ibv_create_qp(pd.get(), &wanted));
  };
  EXPECT_EXIT(
      {
        reach_the_limits();
        std::_Exit(testing::Test::HasFailure() ? 1 : 0);
      },
      testing::ExitedWithCode(0), "");
  unsetenv("SOFTVERBS_MAX_QP");  // NOLINT(concurrency-mt-unsafe)
  unsetenv("SOFTVERBS_MAX_CQ");  // NOLINT(concurrency-mt-unsafe)
}

TEST_F(limits, are_told_for_what_exists) {
  EXPECT_NE(device_.device_cap_flags & IBV_DEVICE_XRC, 0U);
  EXPECT_NE(device_.device_cap_flags & IBV_DEVICE_MEM_WINDOW, 0U);
  EXPECT_NE(device_.device_cap_flags & IBV_DEVICE_MEM_WINDOW_TYPE_2B, 0U);
  EXPECT_NE(device_.device_cap_flags & IBV_DEVICE_SRQ_RESIZE, 0U);
  EXPECT_EQ(device_.atomic_cap, IBV_ATOMIC_HCA);
  EXPECT_EQ(device_.max_qp_rd_atom, 128);
  EXPECT_EQ(device_.max_qp_init_rd_atom, 128);
  EXPECT_GT(device_.max_mw, 0);
  EXPECT_EQ(device_.phys_port_cnt, 1);
}

TEST_F(limits, of_ports_and_tables) {
  ibv_port_attr port{};
  ASSERT_EQ(ibv_query_port(context_.get(), 1, &port), 0);
  EXPECT_EQ(port.state, IBV_PORT_ACTIVE);
  EXPECT_EQ(port.link_layer, IBV_LINK_LAYER_ETHERNET);
  EXPECT_EQ(port.active_mtu, IBV_MTU_4096);
  EXPECT_EQ(ibv_query_port(context_.get(), 2, &port), EINVAL);
  ibv_gid gid{};
  EXPECT_EQ(ibv_query_gid(context_.get(), 1, port.gid_tbl_len - 1, &gid), 0);
  EXPECT_NE(ibv_query_gid(context_.get(), 1, port.gid_tbl_len, &gid), 0);
  EXPECT_NE(ibv_query_gid(context_.get(), 2, 0, &gid), 0);
  __be16 pkey = 0;
  EXPECT_EQ(ibv_query_pkey(context_.get(), 1, 0, &pkey), 0);
  EXPECT_EQ(pkey, 0xffff);
  EXPECT_NE(ibv_query_pkey(context_.get(), 1, 1, &pkey), 0);
}

}  // namespace
}  // namespace softverbs::device_tests
