// The halves of a stream: each ends in order, and the two can be joined again.

#include <array>
#include <chrono>
#include <cstddef>
#include <future>
#include <span>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include <rdmaxx/rdmaxx.hpp>

#include "byte_pattern.hpp"
#include "completion_waiter.hpp"
#include "stream_pair.hpp"

namespace rdmaxx::device_tests {

namespace {

using namespace std::chrono_literals;

std::vector<std::byte> pattern(std::size_t bytes, std::uint64_t seed) {
  std::vector<std::byte> made(bytes);
  fill_pattern(made, seed);
  return made;
}

TEST(stream_halves, can_be_put_together_again) {
  stream_pair pair;
  pair.client.set_read_timeout(patience);
  auto [reads, writes] = std::move(pair.client).into_split();
  writes.write_all(pattern(100, 1)).value();

  auto whole = stream::join(std::move(reads), std::move(writes)).value();

  whole.write_all(pattern(100, 2)).value();
  std::vector<std::byte> got(200);
  pair.server.read_exactly(got).value();
  EXPECT_TRUE(same_bytes(std::span(got).first(100), pattern(100, 1)));
  EXPECT_TRUE(same_bytes(std::span(got).last(100), pattern(100, 2)));
  auto closing = std::async(std::launch::async, [&] { return pair.server.close(patience); });
  EXPECT_TRUE(whole.close(patience).has_value());
  EXPECT_TRUE(closing.get().has_value());
}

TEST(stream_halves, of_two_streams_are_refused_and_stay_what_they_are) {
  stream_pair one;
  stream_pair other;
  auto [one_reads, one_writes] = std::move(one.client).into_split();
  auto [other_reads, other_writes] = std::move(other.client).into_split();

  const auto refused = stream::join(std::move(one_reads), std::move(other_writes));

  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error().category(), error_category::misuse);
  // NOLINTBEGIN(bugprone-use-after-move): that is what is tested
  std::array<std::byte, 10> got{};
  one.server.write_all(pattern(10, 1)).value();
  one_reads.read_exactly(got).value();
  other_writes.write_all(pattern(10, 2)).value();
  other.server.read_exactly(got).value();
  EXPECT_TRUE(same_bytes(got, pattern(10, 2)));
  EXPECT_TRUE(stream::join(std::move(one_reads), std::move(one_writes)).has_value());
  // NOLINTEND(bugprone-use-after-move)
}

TEST(stream_halves, close_in_order) {
  stream_pair pair;
  auto [reads, writes] = std::move(pair.client).into_split();
  const auto sent = pattern(500'000, 1);
  auto writing =
      std::async(std::launch::async, [&sent, half = std::move(writes)]() mutable -> result<void> {
        RDMAXX_TRY(half.write_all(sent));
        return half.close(patience);
      });
  std::vector<std::byte> got(sent.size());
  pair.server.read_exactly(got).value();
  EXPECT_TRUE(writing.get().has_value());
  std::array<std::byte, 1> one{};
  EXPECT_EQ(pair.server.read(one).value(), 0U) << "the end";
  // The other direction goes on, and is read until its end.
  pair.server.write_all(pattern(100'000, 2)).value();
  auto closing = std::async(std::launch::async, [&] { return pair.server.close(patience); });
  EXPECT_TRUE(reads.close(patience).has_value());
  EXPECT_TRUE(closing.get().has_value()) << "as by stream::close()";
}

TEST(stream_halves, that_cannot_close_in_time_can_go_on) {
  stream_pair pair;
  auto [reads, writes] = std::move(pair.client).into_split();
  EXPECT_EQ(reads.close(50ms).error(), std::errc::timed_out);
  std::array<std::byte, 10> got{};
  pair.server.write_all(pattern(10, 1)).value();
  reads.read_exactly(got).value();

  const auto chunk = pattern(100'000, 1);
  std::size_t taken = 0;
  writes.set_write_timeout(100ms);
  for (auto some = writes.write(chunk); some; some = writes.write(chunk)) taken += *some;
  EXPECT_EQ(writes.close(50ms).error(), std::errc::timed_out);
  std::vector<std::byte> all(taken);
  pair.server.read_exactly(all).value();
  EXPECT_TRUE(writes.close(patience).has_value());
  EXPECT_EQ(pair.server.read(got).value(), 0U);
}

TEST(stream_halves, closing_tells_that_the_peer_has_stopped_reading) {
  stream_pair pair;
  auto [reads, writes] = std::move(pair.client).into_split();
  const auto chunk = pattern(100'000, 1);
  writes.set_write_timeout(100ms);  // until the peer has no room, not only this side for a moment
  while (writes.write(chunk)) continue;
  pair.server.shutdown(direction::read);
  const auto closed = writes.close(patience);
  ASSERT_FALSE(closed.has_value());
  EXPECT_EQ(closed.error(), std::errc::broken_pipe) << closed.error();
  EXPECT_EQ(closed.error().category(), error_category::peer);
}

}  // namespace

}  // namespace rdmaxx::device_tests
