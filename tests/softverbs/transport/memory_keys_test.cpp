#include <transport/memory_keys.hpp>

#include <algorithm>
#include <array>
#include <cstdint>
#include <deque>
#include <set>
#include <vector>

#include <gtest/gtest.h>

namespace softverbs::transport {
namespace {

constexpr std::uint32_t index_of(std::uint32_t key) { return key >> 8U; }

class memory_keys_test : public testing::Test {
 protected:
  memory_region& add() {
    auto& made = regions_.emplace_back();
    made.start = memory_.data();
    made.iova = reinterpret_cast<std::uintptr_t>(memory_.data());
    made.size = memory_.size();
    made.rights = access::local_write;
    made.domain = domain;
    EXPECT_TRUE(table_.add(made));
    return made;
  }
  [[nodiscard]] bool finds(std::uint32_t key) const {
    const memory_keys::use now(table_);
    return now.locate({.key = key,
                       .domain = domain,
                       .address = reinterpret_cast<std::uintptr_t>(memory_.data()),
                       .bytes = memory_.size(),
                       .rights = access::local_write}) != nullptr;
  }

  std::array<std::byte, 64> memory_{};
  static constexpr memory_domain domain{1};
  memory_keys table_{4096};
  std::deque<memory_region> regions_;
};

TEST_F(memory_keys_test, keys_tell_nothing_about_other_keys) {
  constexpr int count = 2000;
  int close = 0;
  std::set<std::uint32_t> tags;
  std::uint32_t before = 0;
  for (int i = 0; i < count; ++i) {
    const auto key = add().key;
    const auto distance = index_of(key) - index_of(before);
    if (std::min(distance, -distance) < 1024) ++close;
    tags.insert(key & 0xffU);
    before = key;
  }
  // One in 8192 by chance.
  EXPECT_LT(close, 20);
  EXPECT_GT(tags.size(), 200U);
}

TEST_F(memory_keys_test, every_key_is_found_and_no_other_whatever_is_removed) {
  for (int i = 0; i < 1000; ++i) {
    ASSERT_NE(add().key, 0U);
  }
  for (std::size_t i = 0; i < regions_.size(); i += 3) EXPECT_TRUE(table_.remove(regions_[i]));
  for (std::size_t i = 0; i < regions_.size(); ++i) {
    const auto key = regions_[i].key;
    EXPECT_EQ(finds(key), i % 3 != 0) << i;
    EXPECT_FALSE(finds(key ^ 1U));
    EXPECT_FALSE(finds(key ^ 0x100U));
  }
  EXPECT_FALSE(finds(0));
  EXPECT_FALSE(finds(7));
}

TEST_F(memory_keys_test, a_freed_key_is_not_given_out_again_soon) {
  for (int round = 0; round < 100; ++round) {
    auto& first = add();
    const auto freed = index_of(first.key);
    ASSERT_TRUE(table_.remove(first));
    for (int i = 0; i < 40; ++i) {
      auto& next = add();
      ASSERT_NE(index_of(next.key), freed);
      ASSERT_TRUE(table_.remove(next));
    }
    regions_.clear();
  }
}

TEST_F(memory_keys_test, a_table_that_is_full_says_so) {
  for (int i = 0; i < 4096; ++i) add();
  memory_region one_more;
  EXPECT_FALSE(table_.add(one_more));
  EXPECT_TRUE(table_.remove(regions_.front()));
  EXPECT_TRUE(table_.add(one_more));
}

}  // namespace
}  // namespace softverbs::transport
