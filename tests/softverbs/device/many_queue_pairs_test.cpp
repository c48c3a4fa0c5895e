// A thousand queue pairs in one process, and what an idle one costs.

#include <cstddef>
#include <cstdint>
#include <fstream>
#include <iostream>
#include <vector>

#include <gtest/gtest.h>
#include <infiniband/verbs.h>
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

constexpr std::size_t count = 1000;

std::size_t resident_bytes() {
  std::ifstream file("/proc/self/statm");
  std::size_t whole = 0;
  std::size_t resident = 0;
  file >> whole >> resident;
  return resident * static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
}

TEST(many_queue_pairs, move_a_message_each_and_cost_little) {
  const auto context = open_device();
  const auto pd = own(ibv_alloc_pd(context.get()));
  const auto cq = own(ibv_create_cq(context.get(), 2 * count, nullptr, nullptr, 0));
  buffer from(pd.get(), count * 16);
  buffer to(pd.get(), count * 16);
  fill_pattern(from.bytes(), 1);
  ibv_qp_init_attr wanted{};
  wanted.send_cq = wanted.recv_cq = cq.get();
  wanted.qp_type = IBV_QPT_RC;
  std::vector<owned<ibv_qp>> all;
  all.reserve(count);
  const auto before = resident_bytes();
  for (std::size_t i = 0; i < count; ++i) {
    wanted.cap = {.max_send_wr = 1,
                  .max_recv_wr = 1,
                  .max_send_sge = 1,
                  .max_recv_sge = 1,
                  .max_inline_data = 0};
    all.push_back(own(ibv_create_qp(pd.get(), &wanted)));
  }
  for (std::size_t i = 0; i < count; ++i) connect(all[i].get(), all[i ^ 1U]->qp_num);
  // What other tests have given back may be used again: then it is less.
  const auto now = resident_bytes();
  const auto each = now > before ? (now - before) / count : 0;
  std::cout << "an idle queue pair takes " << each << " bytes\n";
  RecordProperty("bytes_per_queue_pair", static_cast<int>(each));
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
  EXPECT_LT(each, 32U << 10U);
#endif

  for (std::size_t i = 0; i < count; ++i) {
    ASSERT_EQ(post_receive(all[i].get(), i, {to.sge(i * 16, 16)}), 0);
  }
  for (std::size_t i = 0; i < count; ++i) {
    ASSERT_EQ(send(i, {from.sge((i ^ 1U) * 16, 16)}).post(all[i].get()), 0);
  }
  std::vector<int> sent(count);
  std::vector<int> received(count);
  for (const auto& done : wait_for_successes(cq.get(), 2 * count)) {
    ++(done.opcode == IBV_WC_RECV ? received : sent).at(done.wr_id);
    EXPECT_EQ(done.qp_num, all.at(done.wr_id)->qp_num);
  }
  EXPECT_EQ(sent, std::vector(count, 1));
  EXPECT_EQ(received, std::vector(count, 1));
  EXPECT_TRUE(same_bytes(to.bytes(), from.bytes()));
}

}  // namespace
}  // namespace softverbs::device_tests
