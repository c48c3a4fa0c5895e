#include <rdmaxx/stream/frame.hpp>

#include <utility>

#include <fmt/format.h>

#include "core/big_endian.hpp"

namespace RDMAXX_NAMESPACE::stream_protocol {

namespace {

// Offsets in the layout of docs/stream-protocol.md.
constexpr std::size_t kind_at = 0;
constexpr std::size_t flags_at = 1;
constexpr std::size_t acknowledged_at = 2;
constexpr std::size_t wanted_at = 3;
constexpr std::size_t length_at = 4;
constexpr std::size_t sequence_at = 8;
constexpr std::size_t granted_at = 12;
static_assert(granted_at + 4 == frame_header_bytes);

constexpr std::uint8_t fin_flag = 1;

}  // namespace

std::string_view describe(frame_kind kind) noexcept {
  switch (kind) {
    case frame_kind::data:
      return "data";
    case frame_kind::credit:
      return "credit";
    case frame_kind::stop:
      return "stop";
    case frame_kind::reset:
      return "reset";
  }
  return "unknown";
}

std::string_view describe(reset_reason reason) noexcept {
  switch (reason) {
    case reset_reason::aborted:
      return "aborted";
    case reset_reason::protocol_violation:
      return "protocol_violation";
  }
  return "unknown";
}

std::string describe(const frame_header& header) {
  return fmt::format("{} frame {} of {} bytes{}, grants up to {}", describe(header.kind),
                     header.sequence, header.length, header.fin ? ", fin" : "", header.granted);
}

void encode(const frame_header& header, std::span<std::byte, frame_header_bytes> into) noexcept {
  put(into, kind_at, std::to_underlying(header.kind));
  put(into, flags_at, header.fin ? fin_flag : std::uint8_t{0});
  put(into, acknowledged_at, header.acknowledged);
  put(into, wanted_at, header.wanted);
  put(into, length_at, header.length);
  put(into, sequence_at, header.sequence);
  put(into, granted_at, header.granted);
}

result<frame_header> decode_frame(std::span<const std::byte> frame) {
  if (frame.size() < frame_header_bytes) {
    return protocol_violation(fmt::format("a frame of {} bytes is shorter than its header of {}",
                                          frame.size(), frame_header_bytes));
  }
  const frame_header header{
      .kind = frame_kind(get<std::uint8_t>(frame, kind_at)),
      .fin = get<std::uint8_t>(frame, flags_at) == fin_flag,
      .acknowledged = get<std::uint8_t>(frame, acknowledged_at),
      .wanted = get<std::uint8_t>(frame, wanted_at),
      .length = get<std::uint32_t>(frame, length_at),
      .sequence = get<std::uint32_t>(frame, sequence_at),
      .granted = get<std::uint32_t>(frame, granted_at),
  };
  if (const auto flags = get<std::uint8_t>(frame, flags_at); (flags & ~fin_flag) != 0)
    return protocol_violation(fmt::format("unknown flags {:#x}", flags));
  if (header.length != frame.size() - frame_header_bytes) {
    return protocol_violation(fmt::format("a frame claims {} bytes of payload and has {}",
                                          header.length, frame.size() - frame_header_bytes));
  }
  switch (header.kind) {
    case frame_kind::data:
      // Empty frames would let a peer keep this side busy for free.
      if (header.length == 0 && !header.fin) return protocol_violation("an empty data frame");
      return header;
    case frame_kind::credit:
    case frame_kind::stop:
    case frame_kind::reset:
      if (header.fin)
        return protocol_violation(fmt::format("fin in a {} frame", describe(header.kind)));
      if (header.length != (header.kind == frame_kind::reset ? reset_payload_bytes : 0)) {
        return protocol_violation(fmt::format("a {} frame with {} bytes of payload",
                                              describe(header.kind), header.length));
      }
      return header;
  }
  return protocol_violation(
      fmt::format("unknown kind of frame {}", std::to_underlying(header.kind)));
}

error protocol_violation(std::string problem) {
  return error({
      .operation = "receiving from a stream's peer",
      .code = std::make_error_code(std::errc::protocol_error),
      .category = error_category::peer,
      .problem = std::move(problem),
      .hint = "the peer is defective or hostile; the connection cannot continue",
  });
}

}  // namespace RDMAXX_NAMESPACE::stream_protocol
