// libFuzzer target: what decode() accepts survives encode() and decode() unchanged, and no datagram
// upsets the ICRC's check.

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <span>
#include <vector>

#include <wire/icrc.hpp>
#include <wire/packet.hpp>

namespace {

using namespace softverbs::wire;

void require(bool condition) {
  if (!condition) std::abort();
}

// A sum that was computed holds, and with a bit flipped it does not hold over IPv6.
void check_icrc(std::span<const std::byte> datagram, bool ipv4) {
  flow packet_flow{
      .source{}, .destination{}, .source_port = 0xc000, .destination_port = roce_udp_port};
  packet_flow.source.raw[0] = packet_flow.destination.raw[0] = ipv4 ? 0 : 0x20;
  if (ipv4) {
    for (auto* address : {&packet_flow.source, &packet_flow.destination}) {
      address->raw[10] = address->raw[11] = 0xff;
    }
  }
  static_cast<void>(icrc_holds(packet_flow, datagram));
  if (datagram.size() < bth_bytes + icrc_bytes) return;

  std::vector<std::byte> right(datagram.begin(), datagram.end());
  const std::array parts{iovec{.iov_base = right.data(), .iov_len = right.size() - icrc_bytes}};
  const auto id = static_cast<std::uint16_t>(datagram.size() * 40503U);
  const std::uint32_t sum = icrc(packet_flow, id, parts);
  for (std::size_t i = 0; i < icrc_bytes; ++i) {
    right[right.size() - icrc_bytes + i] = static_cast<std::byte>(sum >> (8 * i));
  }
  require(icrc_holds(packet_flow, right));
  right.back() ^= std::byte{1};
  if (!ipv4) require(!icrc_holds(packet_flow, right));
}

}  // namespace

// NOLINTNEXTLINE(readability-identifier-naming): libFuzzer's
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto datagram = std::as_bytes(std::span(data, size));
  check_icrc(datagram, true);
  check_icrc(datagram, false);

  const auto first = decode(datagram);
  if (!first) return 0;
  // Reserved opcodes of reliable services are decoded, to be refused by an answer.
  require(is_defined(first->header.service, first->header.op) ||
          first->header.service == transport::rc || first->header.service == transport::xrc);
  std::vector<std::byte> again(most_header_bytes);
  again.resize(encode(first->header, again.data()));
  require(again.size() == header_bytes(first->header.service, first->header.op));
  require(again.size() + first->payload.size() + first->header.pad_bytes + icrc_bytes == size);
  again.insert(again.end(), datagram.begin() + static_cast<std::ptrdiff_t>(again.size()),
               datagram.end());
  const auto second = decode(again);
  require(second && second->header == first->header &&
          second->payload.size() == first->payload.size());
  return 0;
}
