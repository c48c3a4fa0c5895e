#pragma once

// qp_endpoint: what a peer must know to connect to a queue pair.
//
//   auto mine = qp.endpoint({.port = 1}).value();
//   socket.write(mine.to_bytes());                            // any channel will do
//   auto theirs = qp_endpoint::from_bytes(socket.read(qp_endpoint::serialized_size)).value();
//   qp.connect(theirs, {.port = 1}).value();

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include <rdmaxx/core/identifiers.hpp>
#include <rdmaxx/core/result.hpp>
#include <rdmaxx/verbs/gid.hpp>
#include <rdmaxx/verbs/port_attributes.hpp>

namespace RDMAXX_NAMESPACE {

struct qp_endpoint {
  qpn number{};
  psn first_psn{};  ///< of the first packet this side will send
  rdmaxx::gid gid{};
  rdmaxx::lid lid{};
  rdmaxx::link_layer link_layer = rdmaxx::link_layer::ethernet;
  rdmaxx::mtu mtu = rdmaxx::mtu::mtu_1024;  ///< the largest that this side's port supports
  qkey queue_key{};                         ///< UD
  std::uint8_t responder_resources = 0;     ///< reads and atomics this side can answer at a time

  /// Layout (version 1, big-endian): "RXEP", version, link layer, mtu, responder resources, qpn
  /// (4), psn (4), qkey (4), lid (2), zero (2), gid (16).
  static constexpr std::size_t serialized_size = 40;
  static constexpr std::uint8_t serialized_version = 1;

  [[nodiscard]] std::array<std::byte, serialized_size> to_bytes() const noexcept;
  /// An error says why the bytes are not an endpoint of this version.
  [[nodiscard]] static result<qp_endpoint> from_bytes(std::span<const std::byte> bytes);

  friend bool operator==(const qp_endpoint&, const qp_endpoint&) noexcept = default;
};
/// "qp 0x11 psn 0xabc at ::ffff:10.0.0.1 (ethernet, mtu 4096)"
[[nodiscard]] std::string describe(const qp_endpoint& endpoint);

}  // namespace RDMAXX_NAMESPACE
