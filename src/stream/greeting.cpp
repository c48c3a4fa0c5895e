#include <rdmaxx/stream/greeting.hpp>

#include <algorithm>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "core/big_endian.hpp"

namespace RDMAXX_NAMESPACE::stream_protocol {

namespace {

constexpr std::array magic{std::byte{'R'}, std::byte{'X'}, std::byte{'S'}, std::byte{'T'}};

// Offsets in the layout of docs/stream-protocol.md.
constexpr std::size_t lowest_at = 4;
constexpr std::size_t highest_at = 6;
constexpr std::size_t features_at = 8;
constexpr std::size_t buffers_at = 12;
constexpr std::size_t buffer_bytes_at = 16;
constexpr std::size_t first_sequence_at = 20;
constexpr std::size_t growth_at = 24;
constexpr std::size_t reserved_at = 28;
static_assert(reserved_at + 4 == greeting::serialized_size);

error peer_error(std::string_view operation, std::errc code, std::string problem,
                 std::string hint) {
  return error({
      .operation = std::string(operation),
      .code = std::make_error_code(code),
      .category = error_category::peer,
      .problem = std::move(problem),
      .hint = std::move(hint),
  });
}

error not_a_greeting(std::string problem) {
  return peer_error("reading the peer's stream greeting", std::errc::protocol_error,
                    std::move(problem),
                    "the program at that address does not speak the stream protocol of rdmaxx");
}

std::string versions(std::uint16_t lowest, std::uint16_t highest) {
  return lowest == highest ? fmt::format("{}", lowest) : fmt::format("{} to {}", lowest, highest);
}

}  // namespace

result<void> receive_window::check() const {
  if (buffers < fewest_buffers || buffers > most_buffers) {
    return misuse_error("checking a stream's receive window",
                        fmt::format("{} receive buffers", buffers),
                        fmt::format("use {} to {}", fewest_buffers, most_buffers));
  }
  if (buffer_bytes < fewest_bytes || buffer_bytes > most_bytes) {
    return misuse_error("checking a stream's receive window",
                        fmt::format("receive buffers of {} bytes", buffer_bytes),
                        fmt::format("use {} to {} bytes", fewest_bytes, most_bytes));
  }
  if (growth > most_buffers - buffers) {
    return misuse_error("checking a stream's receive window",
                        fmt::format("{} receive buffers that grow by {}", buffers, growth),
                        fmt::format("use at most {} in all", most_buffers));
  }
  return {};
}

std::string describe(const receive_window& window) {
  if (window.growth != 0) {
    return fmt::format("{} to {} buffers of {} bytes", window.buffers,
                       window.buffers + window.growth, window.buffer_bytes);
  }
  return fmt::format("{} buffers of {} bytes", window.buffers, window.buffer_bytes);
}

std::array<std::byte, greeting::serialized_size> greeting::to_bytes() const noexcept {
  std::array<std::byte, serialized_size> bytes{};
  std::ranges::copy(magic, bytes.begin());
  put(bytes, lowest_at, lowest);
  put(bytes, highest_at, highest);
  put(bytes, features_at, features);
  put(bytes, buffers_at, window.buffers);
  put(bytes, buffer_bytes_at, window.buffer_bytes);
  put(bytes, first_sequence_at, first_sequence);
  put(bytes, growth_at, window.growth);
  return bytes;
}

result<greeting> greeting::from_bytes(std::span<const std::byte> bytes) {
  if (bytes.size() < serialized_size) {
    return not_a_greeting(fmt::format("{} bytes of private data, at least {} expected",
                                      bytes.size(), serialized_size));
  }
  if (!std::ranges::equal(bytes.first(magic.size()), magic))
    return not_a_greeting("the private data does not begin with \"RXST\"");
  const greeting read{
      .lowest = get<std::uint16_t>(bytes, lowest_at),
      .highest = get<std::uint16_t>(bytes, highest_at),
      .features = get<std::uint32_t>(bytes, features_at),
      .window = {.buffers = get<std::uint32_t>(bytes, buffers_at),
                 .buffer_bytes = get<std::uint32_t>(bytes, buffer_bytes_at),
                 .growth = get<std::uint32_t>(bytes, growth_at)},
      .first_sequence = get<std::uint32_t>(bytes, first_sequence_at),
  };
  if (read.lowest == 0 || read.lowest > read.highest)
    return not_a_greeting(fmt::format("versions {} to {}", read.lowest, read.highest));
  return read;
}

std::string describe(const greeting& hello) {
  return fmt::format("stream versions {}, {}", versions(hello.lowest, hello.highest),
                     describe(hello.window));
}

std::string describe(const agreement& terms) {
  return fmt::format("stream version {}, receives in {}, sends into {}", terms.version,
                     describe(terms.own), describe(terms.peer));
}

result<agreement> negotiate(const greeting& own, const greeting& peer) {
  constexpr std::string_view operation = "negotiating the stream protocol";
  if (const auto checked = own.window.check(); !checked) return checked.error().within(operation);
  const auto version = std::min(own.highest, peer.highest);
  if (version < std::max(own.lowest, peer.lowest)) {
    return peer_error(
        operation, std::errc::protocol_not_supported,
        fmt::format("the peer speaks stream versions {}, this side {}",
                    versions(peer.lowest, peer.highest), versions(own.lowest, own.highest)),
        "use rdmaxx releases on both sides that share a version");
  }
  if (const auto checked = peer.window.check(); !checked) {
    return peer_error(operation, std::errc::protocol_error,
                      fmt::format("the peer announces {}", checked.error().problem()),
                      std::string(checked.error().hint()) + " on the peer's side");
  }
  return agreement{
      .version = version,
      .features = own.features & peer.features,
      .own = own.window,
      .peer = peer.window,
      .own_first_sequence = own.first_sequence,
      .peer_first_sequence = peer.first_sequence,
  };
}

greeting answer(const greeting& own, const agreement& terms) noexcept {
  greeting narrowed = own;
  narrowed.lowest = narrowed.highest = terms.version;
  narrowed.features = terms.features;
  return narrowed;
}

}  // namespace RDMAXX_NAMESPACE::stream_protocol
