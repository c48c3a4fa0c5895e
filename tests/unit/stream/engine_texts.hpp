#pragma once

// What tests of protocol engines write, read, and forge.

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <gtest/gtest.h>

#include <rdmaxx/stream/protocol_engine.hpp>

namespace rdmaxx_test {

using rdmaxx::stream_protocol::agreement;
using rdmaxx::stream_protocol::frame_header;
using rdmaxx::stream_protocol::frame_header_bytes;
using rdmaxx::stream_protocol::outgoing_frame;
using rdmaxx::stream_protocol::protocol_engine;
using rdmaxx::stream_protocol::receive_window;

inline agreement terms_of(receive_window own, receive_window peer, std::uint32_t own_first = 0,
                          std::uint32_t peer_first = 0) {
  return {
      .own = own, .peer = peer, .own_first_sequence = own_first, .peer_first_sequence = peer_first};
}

inline std::span<const std::byte> bytes_of(std::string_view text) {
  return std::as_bytes(std::span(text));
}

inline std::string pattern(std::size_t size) {
  std::string text(size, ' ');
  for (std::size_t i = 0; i < size; ++i) text[i] = static_cast<char>('a' + i % 23);
  return text;
}

inline std::string read_all(protocol_engine& engine) {
  std::string text(engine.receiving().available(), ' ');
  EXPECT_EQ(engine.receiving().read(std::as_writable_bytes(std::span(text))), text.size());
  return text;
}

inline void write_all(protocol_engine& engine, std::string_view text) {
  ASSERT_EQ(engine.sending().write(bytes_of(text)), text.size());
}

/// As a peer might send it that does not keep to the rules.
inline std::vector<std::byte> forged(frame_header header, std::size_t bytes) {
  header.length = static_cast<std::uint32_t>(bytes);
  std::vector<std::byte> frame(frame_header_bytes + bytes);
  encode(header, std::span(frame).first<frame_header_bytes>());
  return frame;
}

inline frame_header header_of(const outgoing_frame& frame) {
  std::vector<std::byte> bytes(frame.bytes.begin(), frame.bytes.end());
  bytes.insert(bytes.end(), frame.in_place.begin(), frame.in_place.end());
  return rdmaxx::stream_protocol::decode_frame(bytes).value();
}

}  // namespace rdmaxx_test
