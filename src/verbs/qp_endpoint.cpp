#include <rdmaxx/verbs/qp_endpoint.hpp>

#include <algorithm>
#include <string_view>

#include <fmt/format.h>

#include "core/big_endian.hpp"

namespace RDMAXX_NAMESPACE {

namespace {

constexpr std::array magic{std::byte{'R'}, std::byte{'X'}, std::byte{'E'}, std::byte{'P'}};
constexpr std::uint32_t max_24_bits = 0xffffff;

// Offsets in the layout that the header documents.
constexpr std::size_t version_at = 4;
constexpr std::size_t link_layer_at = 5;
constexpr std::size_t mtu_at = 6;
constexpr std::size_t responder_resources_at = 7;
constexpr std::size_t qpn_at = 8;
constexpr std::size_t psn_at = 12;
constexpr std::size_t qkey_at = 16;
constexpr std::size_t lid_at = 20;
constexpr std::size_t zero_at = 22;
constexpr std::size_t gid_at = 24;
static_assert(gid_at + 16 == qp_endpoint::serialized_size);

error malformed(std::string problem) {
  return misuse_error(
      "qp_endpoint::from_bytes", std::move(problem),
      "the peer must send the bytes of qp_endpoint::to_bytes() of the same rdmaxx version");
}

}  // namespace

std::array<std::byte, qp_endpoint::serialized_size> qp_endpoint::to_bytes() const noexcept {
  std::array<std::byte, serialized_size> bytes{};
  std::ranges::copy(magic, bytes.begin());
  put(bytes, version_at, serialized_version);
  put(bytes, link_layer_at, static_cast<std::uint8_t>(link_layer));
  put(bytes, mtu_at, static_cast<std::uint8_t>(mtu));
  put(bytes, responder_resources_at, responder_resources);
  put(bytes, qpn_at, number.value());
  put(bytes, psn_at, first_psn.value());
  put(bytes, qkey_at, queue_key.value());
  put(bytes, lid_at, lid.value());
  std::ranges::transform(gid.raw(), bytes.begin() + gid_at,
                         [](std::uint8_t byte) { return std::byte(byte); });
  return bytes;
}

result<qp_endpoint> qp_endpoint::from_bytes(std::span<const std::byte> bytes) {
  if (bytes.size() != serialized_size) {
    return malformed(fmt::format("{} bytes instead of {}", bytes.size(), serialized_size));
  }
  if (!std::ranges::equal(bytes.first(magic.size()), magic))
    return malformed("the bytes do not begin with \"RXEP\"");
  if (const auto version = get<std::uint8_t>(bytes, version_at); version != serialized_version) {
    return malformed(fmt::format("version {} instead of {}", version, serialized_version));
  }
  const auto layer = get<std::uint8_t>(bytes, link_layer_at);
  if (layer != IBV_LINK_LAYER_INFINIBAND && layer != IBV_LINK_LAYER_ETHERNET) {
    return malformed(fmt::format("unknown link layer {}", layer));
  }
  const auto mtu_code = get<std::uint8_t>(bytes, mtu_at);
  if (mtu_code < IBV_MTU_256 || mtu_code > IBV_MTU_4096)
    return malformed(fmt::format("unknown mtu code {}", mtu_code));
  const auto number = get<std::uint32_t>(bytes, qpn_at);
  if (number > max_24_bits)
    return malformed(fmt::format("queue pair number {:#x} has more than 24 bits", number));
  const auto sequence = get<std::uint32_t>(bytes, psn_at);
  if (sequence > max_24_bits)
    return malformed(fmt::format("sequence number {:#x} has more than 24 bits", sequence));
  if (get<std::uint16_t>(bytes, zero_at) != 0) return malformed("reserved bytes are not zero");

  std::array<std::uint8_t, 16> raw{};
  std::ranges::transform(bytes.subspan(gid_at), raw.begin(),
                         [](std::byte byte) { return std::to_integer<std::uint8_t>(byte); });
  return qp_endpoint{
      .number = qpn(number),
      .first_psn = psn(sequence),
      .gid = rdmaxx::gid(raw),
      .lid = rdmaxx::lid(get<std::uint16_t>(bytes, lid_at)),
      .link_layer = rdmaxx::link_layer(layer),
      .mtu = rdmaxx::mtu(mtu_code),
      .queue_key = qkey(get<std::uint32_t>(bytes, qkey_at)),
      .responder_resources = get<std::uint8_t>(bytes, responder_resources_at),
  };
}

std::string describe(const qp_endpoint& endpoint) {
  const auto place = endpoint.link_layer == link_layer::infiniband && endpoint.gid.is_zero()
                         ? fmt::format("lid {:#x}", endpoint.lid.value())
                         : describe(endpoint.gid);
  return fmt::format("queue pair {:#x} psn {:#x} at {} ({}, mtu {})", endpoint.number.value(),
                     endpoint.first_psn.value(), place, describe(endpoint.link_layer),
                     describe(endpoint.mtu));
}

}  // namespace RDMAXX_NAMESPACE
