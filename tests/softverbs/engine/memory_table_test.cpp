#include <engine/memory_table.hpp>

#include <algorithm>
#include <array>
#include <cstdint>
#include <deque>
#include <set>
#include <vector>

#include <gtest/gtest.h>

namespace softverbs::engine {
namespace {

constexpr std::uint32_t index_of(std::uint32_t key) { return key >> 8U; }

class memory_table_test : public testing::Test {
 protected:
  memory_region& add() {
    auto& made = regions_.emplace_back();
    made.addr = memory_.data();
    made.iova = reinterpret_cast<std::uintptr_t>(memory_.data());
    made.length = memory_.size();
    made.access = IBV_ACCESS_LOCAL_WRITE;
    made.pd = &pd_;
    EXPECT_EQ(table_.add(made), 0);
    return made;
  }
  [[nodiscard]] bool finds(std::uint32_t key) const {
    const memory_table::use now(table_);
    return now.locate({.key = key,
                       .pd = &pd_,
                       .address = reinterpret_cast<std::uintptr_t>(memory_.data()),
                       .bytes = memory_.size(),
                       .access = IBV_ACCESS_LOCAL_WRITE}) != nullptr;
  }

  std::array<std::byte, 64> memory_{};
  ibv_pd pd_{};
  memory_table table_{4096};
  std::deque<memory_region> regions_;
};

TEST_F(memory_table_test, keys_tell_nothing_about_other_keys) {
  constexpr int count = 2000;
  int close = 0;
  std::set<std::uint32_t> tags;
  std::uint32_t before = 0;
  for (int i = 0; i < count; ++i) {
    const auto key = add().lkey;
    const auto distance = index_of(key) - index_of(before);
    if (std::min(distance, -distance) < 1024) ++close;
    tags.insert(key & 0xffU);
    before = key;
  }
  // One in 8192 by chance.
  EXPECT_LT(close, 20);
  EXPECT_GT(tags.size(), 200U);
}

TEST_F(memory_table_test, every_key_is_found_and_no_other_whatever_is_removed) {
  for (int i = 0; i < 1000; ++i) {
    ASSERT_NE(add().lkey, 0U);
    EXPECT_EQ(regions_.back().lkey, regions_.back().rkey);
  }
  for (std::size_t i = 0; i < regions_.size(); i += 3) EXPECT_EQ(table_.remove(regions_[i]), 0);
  for (std::size_t i = 0; i < regions_.size(); ++i) {
    const auto key = regions_[i].lkey;
    EXPECT_EQ(finds(key), i % 3 != 0) << i;
    EXPECT_FALSE(finds(key ^ 1U));
    EXPECT_FALSE(finds(key ^ 0x100U));
  }
  EXPECT_FALSE(finds(0));
  EXPECT_FALSE(finds(7));
}

TEST_F(memory_table_test, a_freed_key_is_not_given_out_again_soon) {
  for (int round = 0; round < 100; ++round) {
    auto& first = add();
    const auto freed = index_of(first.lkey);
    ASSERT_EQ(table_.remove(first), 0);
    for (int i = 0; i < 40; ++i) {
      auto& next = add();
      ASSERT_NE(index_of(next.lkey), freed);
      ASSERT_EQ(table_.remove(next), 0);
    }
    regions_.clear();
  }
}

TEST_F(memory_table_test, a_table_that_is_full_says_so) {
  for (int i = 0; i < 4096; ++i) add();
  memory_region one_more;
  EXPECT_EQ(table_.add(one_more), ENOMEM);
  EXPECT_EQ(table_.remove(regions_.front()), 0);
  EXPECT_EQ(table_.add(one_more), 0);
}

}  // namespace
}  // namespace softverbs::engine
