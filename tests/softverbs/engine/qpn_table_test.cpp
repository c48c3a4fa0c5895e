#include <engine/qpn_table.hpp>

#include <memory>
#include <set>
#include <vector>

#include <gtest/gtest.h>

namespace softverbs::engine {
namespace {

constexpr std::uint16_t port = 40'000;

class queue_pair_numbers : public testing::Test {
 protected:
  void SetUp() override { table_.set_port(port); }
  /// The numbers as somebody would take them who keeps them all.
  std::vector<std::uint32_t> take(unsigned count) {
    std::vector<std::uint32_t> taken;
    for (unsigned i = 0; i < count; ++i) {
      const auto got = table_.allocate();
      EXPECT_NE(got, nullptr);
      if (got != nullptr) taken.push_back(got->qpn);
    }
    return taken;
  }

  qpn_table table_;
};

TEST_F(queue_pair_numbers, are_all_different_and_begin_with_the_port) {
  const auto taken = take(qpn_table::numbers);
  EXPECT_EQ(std::set(taken.begin(), taken.end()).size(), qpn_table::numbers);
  for (const auto qpn : taken) EXPECT_EQ(qpn >> 8, port);
}

TEST_F(queue_pair_numbers, run_out) {
  take(qpn_table::numbers);
  EXPECT_EQ(table_.allocate(), nullptr);
  EXPECT_EQ(table_.all().size(), qpn_table::numbers);
}

TEST_F(queue_pair_numbers, one_that_is_released_is_all_that_is_left_of_a_full_table) {
  const auto taken = take(qpn_table::numbers);
  table_.release(taken[17]);
  const auto again = table_.allocate();
  ASSERT_NE(again, nullptr);
  EXPECT_EQ(again->qpn, taken[17]);
  EXPECT_EQ(table_.allocate(), nullptr);
}

TEST_F(queue_pair_numbers, are_not_used_again_before_all_the_others_were) {
  const auto kept = take(3);
  const auto first = table_.allocate()->qpn;
  table_.release(first);
  std::set<std::uint32_t> meanwhile;
  for (;;) {
    const auto next = table_.allocate();
    ASSERT_NE(next, nullptr);
    table_.release(next->qpn);
    if (next->qpn == first) break;
    EXPECT_TRUE(meanwhile.insert(next->qpn).second) << "twice before the first came again";
  }
  EXPECT_EQ(meanwhile.size(), qpn_table::numbers - kept.size() - 1);
}

TEST_F(queue_pair_numbers, name_their_endpoint_until_they_are_released) {
  const auto got = table_.allocate();
  EXPECT_EQ(table_.find(got->qpn), got);
  EXPECT_EQ(table_.find(got->qpn + 1), nullptr) << "nobody has it";
  EXPECT_EQ(table_.find(got->qpn + (1U << 8)), nullptr) << "of another port";
  table_.release(got->qpn);
  EXPECT_EQ(table_.find(got->qpn), nullptr);
  EXPECT_TRUE(table_.all().empty());
}

}  // namespace
}  // namespace softverbs::engine
