// What a responder refuses (IBTA 9.7.4.1), and what an idle queue pair costs.

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <vector>

#include <gtest/gtest.h>
#include <infiniband/verbs.h>
#include <malloc.h>

#include "connected_pair.hpp"
#include "owned.hpp"
#include "requests.hpp"
#include "waiting.hpp"

namespace softverbs::device_tests {

namespace {

TEST(a_responder, refuses_more_atomics_at_once_than_it_has_resources_for) {
  const connected_pair pair({.max_rd_atomic = 16, .max_dest_rd_atomic = 2});
  const buffer into(pair.a.domain(), 8);
  const buffer cell(pair.b.domain(), 8);
  std::vector<send_request> requests;
  for (std::uint64_t i = 0; i < 3; ++i)
    requests.push_back(fetch_add(i, into.sge(), cell.address(), cell.rkey(), 1));
  for (std::size_t i = 0; i < requests.size(); ++i) {
    requests[i].wr.sg_list = requests[i].elements.data();
    requests[i].wr.num_sge = 1;
    requests[i].wr.next = i + 1 < requests.size() ? &requests[i + 1].wr : nullptr;
  }
  ibv_send_wr* bad = nullptr;
  ASSERT_EQ(ibv_post_send(pair.a.qp.get(), &requests[0].wr, &bad), 0);
  const auto done = wait_for(pair.a.send_cq.get(), 3);
  EXPECT_EQ(done[0].status, IBV_WC_SUCCESS);
  EXPECT_EQ(done[1].status, IBV_WC_SUCCESS);
  EXPECT_EQ(done[2].status, IBV_WC_REM_INV_REQ_ERR);
  EXPECT_EQ(state_of(pair.b.qp.get()), IBV_QPS_ERR);
}

class an_atomic : public ::testing::Test {
 protected:
  /// On memory whose address is `misplaced` bytes beyond an aligned one, registered as if it began
  /// at `start`.
  ibv_wc_status status_of(std::size_t misplaced, std::uint64_t start) {
    const connected_pair pair;
    const buffer into(pair.a.domain(), 8);
    const auto mr =
        own(ibv_reg_mr_iova(pair.b.domain(), memory_.data() + misplaced, 16, start, all_access));
    EXPECT_EQ(fetch_add(0, into.sge(), start, mr->rkey, 1).post(pair.a.qp.get()), 0);
    return wait_for_one(pair.a.send_cq.get()).status;
  }
  [[nodiscard]] std::uint64_t cell() const {
    std::uint64_t value = 0;
    std::memcpy(&value, memory_.data(), sizeof value);
    return value;
  }

 private:
  alignas(8) std::array<std::byte, 64> memory_{};
};

TEST_F(an_atomic, is_carried_out_where_both_addresses_are_aligned) {
  EXPECT_EQ(status_of(0, 0x1000), IBV_WC_SUCCESS);
  EXPECT_EQ(cell(), 1U);
}

TEST_F(an_atomic, is_refused_where_the_memory_is_not_aligned) {
  EXPECT_EQ(status_of(4, 0x1000), IBV_WC_REM_INV_REQ_ERR);
  EXPECT_EQ(cell(), 0U);
}

TEST_F(an_atomic, is_refused_where_the_address_in_the_packet_is_not_aligned) {
  EXPECT_EQ(status_of(4, 0x1004), IBV_WC_REM_INV_REQ_ERR);
  EXPECT_EQ(status_of(0, 0x1004), IBV_WC_REM_INV_REQ_ERR);
  EXPECT_EQ(cell(), 0U);
}

TEST(a_queue_pair, gives_the_memory_of_a_burst_back) {
  // Sanitizers count no memory here: then nothing is proved.
  constexpr std::size_t bytes = std::size_t{1024} * 1024;
  constexpr std::size_t pairs = 24;
  const auto context = open_device();
  std::vector<std::unique_ptr<connected_pair>> all;
  for (std::size_t i = 0; i < pairs; ++i)
    all.push_back(std::make_unique<connected_pair>(context.get()));
  const auto in_use = [] {
    const auto now = ::mallinfo2();
    return now.uordblks + now.hblkhd;
  };
  const auto before = in_use();
  for (const auto& pair : all) {
    const buffer from(pair->a.domain(), bytes);
    const buffer to(pair->b.domain(), bytes);
    ASSERT_EQ(write(1, {from.sge()}, to.address(), to.rkey()).post(pair->a.qp.get()), 0);
    wait_for_success(pair->a.send_cq.get());
  }
  const auto kept = static_cast<std::ptrdiff_t>(in_use()) - static_cast<std::ptrdiff_t>(before);
  EXPECT_LT(kept, static_cast<std::ptrdiff_t>(pairs * 16 * 1024 + 4 * bytes));
}

}  // namespace

}  // namespace softverbs::device_tests
