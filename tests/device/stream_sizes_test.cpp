// Streams at their edges: frames around 65,536 bytes, shutdown of both directions, many that
// connect at the same moment.

#include <array>
#include <cstddef>
#include <cstdint>
#include <future>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include <rdmaxx/rdmaxx.hpp>

#include "byte_pattern.hpp"
#include "stream_pair.hpp"

namespace rdmaxx::device_tests {

namespace {

constexpr std::uint32_t edge = 65536;

void expect_bytes(stream& from, stream& to, std::size_t count) {
  std::vector<std::byte> sent(count);
  fill_pattern(sent, count);
  std::vector<std::byte> got(count);
  auto writing = std::async(std::launch::async, [&] { return from.write_all(sent); });
  to.read_exactly(got).value();
  writing.get().value();
  EXPECT_TRUE(same_bytes(got, sent)) << count << " bytes";
}

class stream_sizes : public ::testing::TestWithParam<std::uint32_t> {};

TEST_P(stream_sizes, frames_around_64_kib_carry_messages_around_64_kib) {
  const auto frame = GetParam();
  stream_pair pair({.window = {.buffers = 8, .buffer_bytes = frame},
                    .send_buffers = 3,
                    .send_buffer_bytes = frame,
                    .read_timeout = patience,
                    .write_timeout = patience});
  for (const std::size_t count : {edge - 17, edge - 16, edge - 15, edge - 1, edge, edge + 1,
                                  edge + 16, 2 * edge, 3 * edge + 1}) {
    expect_bytes(pair.client, pair.server, count);
    expect_bytes(pair.server, pair.client, count);
  }
}

TEST_P(stream_sizes, sends_without_a_copy_do_too) {
  const auto frame = GetParam();
  stream_pair pair({.window = {.buffers = 8, .buffer_bytes = frame},
                    .send_buffer_bytes = frame,
                    .read_timeout = patience,
                    .write_timeout = patience});
  const auto memory = pair.client.native().qp.pd().allocate_local({.bytes = 2 * edge}).value();
  fill_pattern(memory.bytes(), 1);
  for (const std::size_t count : {edge - 16, edge - 1, edge, edge + 1, 2 * edge}) {
    std::vector<std::byte> got(count);
    const auto bytes = memory.bytes().first(count);
    auto writing =
        std::async(std::launch::async, [&] { return pair.client.write_all(memory, bytes); });
    pair.server.read_exactly(got).value();
    writing.get().value();
    EXPECT_TRUE(same_bytes(got, bytes)) << count << " bytes";
  }
}

INSTANTIATE_TEST_SUITE_P(frames, stream_sizes,
                         ::testing::Values(edge - 1, edge, edge + 1, edge + 15, edge + 16,
                                           edge + 17),
                         [](const auto& bytes) { return "of_" + std::to_string(bytes.param); });

TEST(stream_shutdown, of_both_directions_is_the_end_for_both_sides) {
  stream_pair pair({.read_timeout = patience, .write_timeout = patience});
  const std::array<std::byte, 10> last{std::byte{7}};
  pair.client.write_all(last).value();

  pair.client.shutdown(direction::both);

  std::array<std::byte, 10> got{};
  pair.server.read_exactly(got).value();
  EXPECT_EQ(got, last) << "what was written before arrives";
  EXPECT_EQ(pair.server.read(got).value(), 0U) << "then the end";
  const auto own = pair.client.write_all(last);
  ASSERT_FALSE(own.has_value());
  EXPECT_EQ(own.error(), std::errc::broken_pipe);
  EXPECT_EQ(own.error().category(), error_category::misuse) << own.error();
  // The peer's writes fail as soon as it knows, which is when the notice has come.
  result<void> theirs;
  for (int i = 0; theirs && i < 100'000; ++i) theirs = pair.server.write_all(last);
  ASSERT_FALSE(theirs.has_value());
  EXPECT_EQ(theirs.error(), std::errc::broken_pipe) << theirs.error();
  EXPECT_EQ(theirs.error().category(), error_category::peer) << theirs.error();
  auto closing = std::async(std::launch::async, [&] { return pair.server.close(patience); });
  pair.client.close(patience).value();
  closing.get().value();
}

}  // namespace

}  // namespace rdmaxx::device_tests
