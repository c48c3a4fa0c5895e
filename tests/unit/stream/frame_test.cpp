#include <rdmaxx/stream/frame.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "unit/core/expect_names.hpp"

using namespace rdmaxx;
using namespace rdmaxx::stream_protocol;
using testing::HasSubstr;

namespace {

std::vector<std::byte> frame_of(const frame_header& header, std::size_t payload) {
  std::vector<std::byte> bytes(frame_header_bytes + payload);
  encode(header, std::span(bytes).first<frame_header_bytes>());
  return bytes;
}

void expect_refused(std::span<const std::byte> frame, std::string_view problem) {
  const auto failed = decode_frame(frame);
  ASSERT_FALSE(failed.has_value()) << problem;
  EXPECT_EQ(failed.error(), std::errc::protocol_error);
  EXPECT_EQ(failed.error().category(), error_category::peer);
  EXPECT_THAT(std::string(failed.error().problem()), HasSubstr(std::string(problem)));
  EXPECT_FALSE(failed.error().hint().empty());
}

}  // namespace

TEST(frame, header_is_encoded_as_documented) {
  std::array<std::byte, frame_header_bytes> bytes{};
  encode({.kind = frame_kind::data,
          .fin = true,
          .acknowledged = 0xa2,
          .wanted = 0xa3,
          .length = 0x01020304,
          .sequence = 0x11121314,
          .granted = 0xf1f2f3f4},
         bytes);

  constexpr std::array<std::uint8_t, frame_header_bytes> golden{
      1,    1,    0xa2, 0xa3,  // data, fin, acknowledged, wanted
      0x01, 0x02, 0x03, 0x04,  // length
      0x11, 0x12, 0x13, 0x14,  // sequence
      0xf1, 0xf2, 0xf3, 0xf4,  // granted
  };
  EXPECT_TRUE(std::ranges::equal(bytes, std::as_bytes(std::span(golden))));
}

TEST(frame, every_kind_survives_the_round_trip) {
  for (const auto& header :
       {frame_header{.kind = frame_kind::data, .length = 9, .sequence = 1, .granted = 2},
        frame_header{.kind = frame_kind::data, .fin = true, .length = 9},
        frame_header{.kind = frame_kind::data, .fin = true},
        frame_header{.kind = frame_kind::credit, .sequence = ~0U, .granted = ~0U},
        frame_header{.kind = frame_kind::stop, .acknowledged = 255, .wanted = 1},
        frame_header{.kind = frame_kind::reset, .length = reset_payload_bytes}}) {
    EXPECT_EQ(decode_frame(frame_of(header, header.length)).value(), header) << header;
  }
}

TEST(frame, shorter_than_a_header_is_refused) {
  const auto whole = frame_of({.length = 1}, 1);
  for (std::size_t length = 0; length < frame_header_bytes; ++length)
    expect_refused(std::span(whole).first(length), "shorter than its header");
}

TEST(frame, a_length_that_is_not_what_was_received_is_refused) {
  expect_refused(frame_of({.length = 5}, 4), "claims 5 bytes of payload and has 4");
  expect_refused(frame_of({.length = 5}, 6), "claims 5 bytes of payload and has 6");
  expect_refused(frame_of({.length = ~0U}, 6), "claims 4294967295 bytes");
}

TEST(frame, unknown_kinds_and_flags_are_refused) {
  for (unsigned kind = 0; kind < 256; ++kind) {
    if (kind >= 1 && kind <= 4) continue;
    auto bytes = frame_of({.length = 1}, 1);
    bytes[0] = std::byte(kind);
    expect_refused(bytes, "unknown kind of frame " + std::to_string(kind));
  }
  for (unsigned flags = 2; flags < 256; ++flags) {
    auto bytes = frame_of({.length = 1}, 1);
    bytes[1] = std::byte(flags);
    expect_refused(bytes, "unknown flags");
  }
}

TEST(frame, payload_where_none_belongs_and_none_where_some_belongs_are_refused) {
  expect_refused(frame_of({.kind = frame_kind::data}, 0), "empty data frame");
  expect_refused(frame_of({.kind = frame_kind::credit, .length = 1}, 1), "credit frame with 1");
  expect_refused(frame_of({.kind = frame_kind::stop, .length = 1}, 1), "stop frame with 1");
  expect_refused(frame_of({.kind = frame_kind::reset}, 0), "reset frame with 0");
  expect_refused(frame_of({.kind = frame_kind::reset, .length = 5}, 5), "reset frame with 5");
}

TEST(frame, only_data_can_be_the_last) {
  expect_refused(frame_of({.kind = frame_kind::credit, .fin = true}, 0), "fin in a credit frame");
  expect_refused(frame_of({.kind = frame_kind::stop, .fin = true}, 0), "fin in a stop frame");
}

TEST(frame, kinds_and_reasons_have_names) {
  expect_names({frame_kind::data, frame_kind::credit, frame_kind::stop, frame_kind::reset},
               frame_kind(9));
  expect_names({reset_reason::aborted, reset_reason::protocol_violation}, reset_reason(9));
  EXPECT_EQ(describe(frame_header{.fin = true, .length = 5, .sequence = 7, .granted = 64}),
            "data frame 7 of 5 bytes, fin, grants up to 64");
}
