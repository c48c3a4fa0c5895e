#include <rdmaxx/stream/greeting.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <sstream>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

using namespace rdmaxx;
using namespace rdmaxx::stream_protocol;
using testing::HasSubstr;

namespace {

greeting sample() {
  return {.lowest = 1,
          .highest = 0x0203,
          .features = 0x04050607,
          .window = {.buffers = 0x0809, .buffer_bytes = 0x0a0b0c, .growth = 0x0d0e},
          .first_sequence = 0xf1f2f3f4};
}

// The format on the wire is a promise to peers of other builds: these bytes must never change.
constexpr std::array<std::uint8_t, greeting::serialized_size> golden{
    'R',  'X',  'S',  'T',   // magic
    0x00, 0x01,              // lowest version
    0x02, 0x03,              // highest version
    0x04, 0x05, 0x06, 0x07,  // features
    0x00, 0x00, 0x08, 0x09,  // receive buffers
    0x00, 0x0a, 0x0b, 0x0c,  // bytes of each
    0xf1, 0xf2, 0xf3, 0xf4,  // first sequence number
    0x00, 0x00, 0x0d, 0x0e,  // growth
    0,    0,    0,    0,     // reserved
};

std::vector<std::byte> golden_bytes() {
  const auto bytes = std::as_bytes(std::span(golden));
  return {bytes.begin(), bytes.end()};
}

}  // namespace

TEST(greeting, serialises_to_the_documented_bytes) {
  EXPECT_TRUE(std::ranges::equal(sample().to_bytes(), golden_bytes()));
}

TEST(greeting, is_read_from_the_documented_bytes) {
  EXPECT_EQ(greeting::from_bytes(golden_bytes()).value(), sample());
}

TEST(greeting, fits_into_the_private_data_of_a_connection_request) {
  EXPECT_LE(greeting::serialized_size, 56U);
}

TEST(greeting, padding_and_reserved_bytes_are_ignored) {
  auto bytes = golden_bytes();
  bytes.at(28) = bytes.at(31) = std::byte{7};
  bytes.resize(196, std::byte{9});

  EXPECT_EQ(greeting::from_bytes(bytes).value(), sample());
}

TEST(greeting, too_few_bytes_are_an_error_that_says_how_many) {
  const auto bytes = golden_bytes();
  for (std::size_t length = 0; length < greeting::serialized_size; ++length) {
    const auto failed = greeting::from_bytes(std::span(bytes).first(length));

    ASSERT_FALSE(failed.has_value()) << length;
    EXPECT_EQ(failed.error().category(), error_category::peer);
    EXPECT_THAT(failed.error().problem(), HasSubstr(std::to_string(length) + " bytes"));
  }
}

TEST(greeting, another_magic_is_an_error_of_the_peer) {
  for (std::size_t at = 0; at < 4; ++at) {
    auto bytes = golden_bytes();
    bytes.at(at) ^= std::byte{0x20};

    const auto failed = greeting::from_bytes(bytes);

    ASSERT_FALSE(failed.has_value()) << at;
    EXPECT_EQ(failed.error(), std::errc::protocol_error);
    EXPECT_EQ(failed.error().category(), error_category::peer);
    EXPECT_THAT(failed.error().problem(), HasSubstr("RXST"));
    EXPECT_FALSE(failed.error().hint().empty());
  }
}

TEST(greeting, a_range_of_versions_that_is_none_is_an_error) {
  for (const auto& [lowest, highest] : {std::pair<std::uint16_t, std::uint16_t>{0, 1}, {2, 1}}) {
    const auto failed =
        greeting::from_bytes(greeting{.lowest = lowest, .highest = highest}.to_bytes());

    ASSERT_FALSE(failed.has_value());
    EXPECT_THAT(failed.error().problem(), HasSubstr("versions"));
  }
}

TEST(greeting, sides_agree_on_the_highest_version_that_both_speak) {
  EXPECT_EQ(negotiate({.lowest = 1, .highest = 5}, {.lowest = 2, .highest = 3}).value().version, 3);
  EXPECT_EQ(negotiate({.lowest = 2, .highest = 3}, {.lowest = 3, .highest = 9}).value().version, 3);
  EXPECT_EQ(negotiate({}, {.lowest = 1, .highest = 9}).value().version, 2);
}

TEST(greeting, without_a_common_version_the_error_names_both_ranges) {
  const auto newer = negotiate({}, {.lowest = 3, .highest = 4});
  ASSERT_FALSE(newer.has_value());
  EXPECT_EQ(newer.error().category(), error_category::peer);
  EXPECT_EQ(newer.error(), std::errc::protocol_not_supported);
  EXPECT_EQ(newer.error().problem(), "the peer speaks stream versions 3 to 4, this side 2");

  EXPECT_FALSE(negotiate({.lowest = 3, .highest = 4}, {}).has_value());
  EXPECT_FALSE(negotiate({}, {.lowest = 1, .highest = 1}).has_value());
}

TEST(greeting, each_side_sees_the_other_ones_window_and_the_common_features) {
  const greeting connecting{.features = 0b011,
                            .window = {.buffers = 8, .buffer_bytes = 64, .growth = 5},
                            .first_sequence = 3};
  const greeting accepting{
      .features = 0b110, .window = {.buffers = 16, .buffer_bytes = 128}, .first_sequence = 4};

  const auto there = negotiate(accepting, connecting).value();
  const auto here = negotiate(connecting, answer(accepting, there)).value();

  EXPECT_EQ(here, (agreement{.version = 2,
                             .features = 0b010,
                             .own = connecting.window,
                             .peer = accepting.window,
                             .own_first_sequence = 3,
                             .peer_first_sequence = 4}));
  EXPECT_EQ(there, (agreement{.version = 2,
                              .features = 0b010,
                              .own = accepting.window,
                              .peer = connecting.window,
                              .own_first_sequence = 4,
                              .peer_first_sequence = 3}));
}

TEST(greeting, the_answer_names_the_chosen_version_only) {
  const greeting own{.lowest = 1, .highest = 4};
  const auto terms = negotiate(own, {.lowest = 1, .highest = 2}).value();

  EXPECT_EQ(answer(own, terms).lowest, 2);
  EXPECT_EQ(answer(own, terms).highest, 2);
}

TEST(greeting, windows_beyond_the_limits_are_refused_and_blamed_on_who_announced_them) {
  const auto most = std::numeric_limits<std::uint32_t>::max();
  for (const auto& window :
       {receive_window{.buffers = 0}, receive_window{.buffers = 2},
        receive_window{.buffers = 65537}, receive_window{.buffers = most},
        receive_window{.buffer_bytes = 0}, receive_window{.buffer_bytes = 63},
        receive_window{.buffer_bytes = (16U << 20) + 1}, receive_window{.buffer_bytes = most},
        receive_window{.growth = 65536 - 64 + 1}, receive_window{.growth = most}}) {
    const auto theirs = negotiate({}, {.window = window});
    ASSERT_FALSE(theirs.has_value()) << describe(window);
    EXPECT_EQ(theirs.error().category(), error_category::peer);
    EXPECT_THAT(theirs.error().problem(), HasSubstr("the peer announces"));

    const auto ours = negotiate({.window = window}, {});
    ASSERT_FALSE(ours.has_value()) << describe(window);
    EXPECT_EQ(ours.error().category(), error_category::misuse);
  }
}

TEST(greeting, windows_at_the_limits_are_accepted) {
  EXPECT_TRUE(negotiate({.window = {.buffers = 3, .buffer_bytes = 64, .growth = 65533}},
                        {.window = {.buffers = 65536, .buffer_bytes = 16U << 20}})
                  .has_value());
}

TEST(greeting, a_window_keeps_two_buffers_for_frames_that_are_not_data) {
  const receive_window window{.buffers = 4, .buffer_bytes = 4096, .growth = 64};
  EXPECT_EQ(window.credits(), 2U);
  EXPECT_EQ(window.most_credits(), 66U);
  EXPECT_EQ(describe(window), "4 to 68 buffers of 4096 bytes");
}

TEST(greeting, is_described_by_versions_and_window) {
  EXPECT_EQ(describe(greeting{}), "stream versions 2, 64 buffers of 16384 bytes");
  std::ostringstream streamed;
  streamed << agreement{};
  EXPECT_EQ(streamed.str(),
            "stream version 2, receives in 64 buffers of 16384 bytes, sends into 64 buffers of "
            "16384 bytes");
}
