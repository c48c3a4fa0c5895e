#include <rdmaxx/stream/send_pool.hpp>

#include <cstddef>
#include <vector>

#include <gtest/gtest.h>

#include "unit/stream/engine_pipe.hpp"
#include "unit/stream/engine_texts.hpp"

using namespace rdmaxx::stream_protocol;
using namespace rdmaxx_test;

namespace {

constexpr receive_window window{.buffers = 8, .buffer_bytes = 64};
constexpr std::size_t payload = 64 - frame_header_bytes;

}  // namespace

TEST(send_pool, has_as_many_buffers_as_the_memory_has_room_for) {
  std::vector<std::byte> memory(3 * std::size_t{100} + 99);
  const send_pool pool(memory, 100);
  EXPECT_EQ(pool.size(), 3U);
  EXPECT_EQ(pool.available(), 3U);
  EXPECT_EQ(pool.buffer_bytes(), 100U);
  EXPECT_FALSE(pool.is_shared());
  EXPECT_EQ(pool.memory_of(2).data(), memory.data() + 200);
  EXPECT_EQ(pool.memory_of(2).size(), 100U);
  EXPECT_EQ(describe(pool), "3 buffers of 100 bytes, 3 available");
}

TEST(send_pool, a_stream_borrows_to_write_and_gives_back_what_was_sent) {
  engine_side a(terms_of(window, window), {.slots = 4});
  engine_side b(terms_of(window, window), {.slots = 4});
  const auto& pool = a.sends().pool;
  write_all(a.engine, pattern(3 * payload));
  EXPECT_EQ(pool.available(), 1U);
  ASSERT_TRUE(a.send() && a.send() && a.deliver_to(b) && a.deliver_to(b));
  EXPECT_EQ(pool.available(), 1U) << "the device may still read them";
  ASSERT_TRUE(a.complete_send());
  EXPECT_EQ(pool.available(), 2U);
  ASSERT_TRUE(a.complete_send());
  EXPECT_EQ(pool.available(), 3U);
  a.engine.abort();
  EXPECT_EQ(pool.available(), 4U) << "what was not handed out is dropped";
}

TEST(send_pool, of_one_stream_is_filled_before_the_peer_has_credits) {
  constexpr receive_window dwarf{.buffers = 3, .buffer_bytes = 64};
  engine_side a(terms_of(window, dwarf), {.slots = 4});
  write_all(a.engine, pattern(4 * payload));
  EXPECT_TRUE(a.send());
  EXPECT_FALSE(a.send());
  EXPECT_TRUE(a.engine.sending().waits_for_credits());
  EXPECT_EQ(a.sends().pool.available(), 0U);
}
