#include <rdmaxx/stream/receive_pool.hpp>

#include <cstddef>
#include <optional>
#include <vector>

#include <gtest/gtest.h>

using namespace rdmaxx::stream_protocol;

namespace {

constexpr std::uint32_t buffer_bytes = 64;

class receive_pool_test : public testing::Test {
 protected:
  std::vector<std::byte> memory = std::vector<std::byte>(4 * std::size_t{buffer_bytes});
  receive_pool pool{memory, buffer_bytes, 1};
};

}  // namespace

TEST_F(receive_pool_test, has_as_many_buffers_as_the_memory_has_room_for_and_all_are_posted) {
  EXPECT_EQ(pool.size(), 4U);
  EXPECT_EQ(pool.buffer_bytes(), buffer_bytes);
  EXPECT_EQ(pool.spare(), 1U);
  EXPECT_FALSE(pool.has_unposted());
  EXPECT_EQ(pool.next_to_post(), std::nullopt);
  EXPECT_EQ(pool.memory_of(3).data(), memory.data() + 3 * std::size_t{buffer_bytes});
  EXPECT_EQ(pool.memory_of(3).size(), buffer_bytes);

  memory.resize(memory.size() - 1);
  EXPECT_EQ(receive_pool(memory, buffer_bytes).size(), 3U);
}

TEST_F(receive_pool_test, what_comes_back_is_posted_again_in_the_same_order) {
  pool.returned(2);
  pool.returned(0);
  EXPECT_TRUE(pool.has_unposted());
  EXPECT_EQ(pool.next_to_post(), 2U);
  EXPECT_EQ(pool.next_to_post(), 0U);
  EXPECT_EQ(pool.next_to_post(), std::nullopt);
  EXPECT_TRUE(pool.has_unposted()) << "they are handed out, but nobody has said that it was done";
  pool.posted(2);
  EXPECT_TRUE(pool.has_unposted());
  pool.posted(0);
  EXPECT_FALSE(pool.has_unposted());
}

TEST_F(receive_pool_test, a_buffer_is_posted_and_returned_once) {
  pool.posted(0);
  pool.posted(4);
  pool.returned(4);
  EXPECT_FALSE(pool.has_unposted());
  pool.returned(1);
  pool.returned(1);
  pool.posted(1);  // it was not handed out
  EXPECT_TRUE(pool.has_unposted());
  EXPECT_EQ(pool.next_to_post(), 1U);
  EXPECT_EQ(pool.next_to_post(), std::nullopt);
  pool.returned(1);  // nothing can have arrived in it
  EXPECT_EQ(pool.next_to_post(), std::nullopt);
  pool.posted(1);
  pool.posted(1);
  EXPECT_FALSE(pool.has_unposted());
}

TEST_F(receive_pool_test, is_described_with_its_numbers) {
  EXPECT_EQ(describe(pool), "4 buffers of 64 bytes, all posted or unread, 1 to spare");
  pool.returned(0);
  EXPECT_EQ(describe(pool), "4 buffers of 64 bytes, some to be posted, 1 to spare");
}
