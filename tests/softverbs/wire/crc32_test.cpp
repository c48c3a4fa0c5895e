#include <wire/crc32.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <random>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <gtest/gtest.h>

#include "crc32_reference.hpp"

namespace {

using softverbs::wire::crc32_start;
using softverbs::wire::crc32_update;
using softverbs::wire::crc32_variant;
using softverbs::wire::crc32_variants;

std::vector<std::byte> random_bytes(std::size_t count, std::uint32_t seed) {
  std::mt19937 random(seed);
  std::vector<std::byte> bytes(count);
  std::ranges::generate(bytes, [&random] { return static_cast<std::byte>(random()); });
  return bytes;
}

// Every variant that this processor can run.
class crc32 : public testing::TestWithParam<crc32_variant> {
 protected:
  static std::uint32_t update(std::uint32_t state, std::span<const std::byte> data) {
    return GetParam().update(state, data);
  }
};

TEST_P(crc32, has_the_check_value_of_the_catalogues) {
  constexpr std::string_view digits = "123456789";
  EXPECT_EQ(~update(crc32_start, std::as_bytes(std::span(digits))), 0xcbf43926U);
}

TEST_P(crc32, leaves_the_state_alone_without_data) {
  EXPECT_EQ(update(crc32_start, {}), crc32_start);
  EXPECT_EQ(update(0x12345678, {}), 0x12345678U);
}

TEST_P(crc32, is_right_for_every_short_length) {
  const auto bytes = random_bytes(1200, 1);
  for (std::size_t length = 0; length <= bytes.size(); ++length) {
    const auto data = std::span(bytes).first(length);
    ASSERT_EQ(update(crc32_start, data), crc32_bit_by_bit(crc32_start, data)) << length;
  }
}

TEST_P(crc32, is_right_at_every_alignment_and_from_every_state) {
  const auto bytes = random_bytes(64 + 9100, 2);
  std::mt19937 random(3);
  for (std::size_t offset = 0; offset < 64; ++offset) {
    const std::size_t length = random() % 9100;
    const auto state = static_cast<std::uint32_t>(random());
    const auto data = std::span(bytes).subspan(offset, length);
    ASSERT_EQ(update(state, data), crc32_bit_by_bit(state, data))
        << "at " << offset << ", " << length << " bytes";
  }
}

TEST_P(crc32, of_pieces_is_that_of_the_whole) {
  const auto bytes = random_bytes(5000, 4);
  const std::uint32_t whole = crc32_bit_by_bit(crc32_start, bytes);
  std::mt19937 random(5);
  for (int round = 0; round < 500; ++round) {
    std::uint32_t state = crc32_start;
    for (std::span<const std::byte> rest = bytes; !rest.empty();) {
      const std::size_t most = random() % 4 == 0 ? 2000 : 40;
      const std::size_t piece = std::min<std::size_t>(random() % most, rest.size());
      state = update(state, rest.first(piece));
      rest = rest.subspan(piece);
    }
    ASSERT_EQ(state, whole);
  }
}

TEST_P(crc32, reads_nothing_outside_the_data) {
  // The sanitizers see a vector's ends.
  for (std::size_t length = 1; length <= 300; ++length) {
    const auto bytes = random_bytes(length, static_cast<std::uint32_t>(length));
    ASSERT_EQ(update(0, bytes), crc32_bit_by_bit(0, bytes));
  }
}

INSTANTIATE_TEST_SUITE_P(variants, crc32,
                         testing::ValuesIn(crc32_variants().begin(), crc32_variants().end()),
                         [](const auto& instance) { return std::string(instance.param.name); });

TEST(crc32_update, agrees_with_the_variants) {
  const auto bytes = random_bytes(4112, 6);
  const std::uint32_t expected = crc32_bit_by_bit(crc32_start, bytes);
  EXPECT_EQ(crc32_update(crc32_start, bytes), expected);  // the first call chooses
  EXPECT_EQ(crc32_update(crc32_start, bytes), expected);
}

}  // namespace
