#include <transport/room_wait.hpp>

#include <chrono>

#include <gtest/gtest.h>

namespace softverbs::transport {
namespace {

TEST(room_wait, is_short_at_first_and_grows_to_a_bound) {
  room_wait wait;
  EXPECT_EQ(wait.next(), room_wait::shortest);
  EXPECT_EQ(wait.next(), 2 * room_wait::shortest);
  for (int i = 0; i < 100; ++i) static_cast<void>(wait.next());
  EXPECT_EQ(wait.next(), room_wait::longest);
  wait.reset();
  EXPECT_EQ(wait.next(), room_wait::shortest);
}

TEST(room_wait, makes_a_sender_no_later_than_its_reader) {
  for (auto reader = room_wait::shortest; reader < room_wait::longest;
       reader += std::chrono::microseconds(37)) {
    room_wait wait;
    clock::duration looked{};
    while (looked < reader) looked += wait.next();
    EXPECT_LE(looked, 2 * reader + room_wait::shortest);
  }
}

}  // namespace
}  // namespace softverbs::transport
