#pragma once

// identifiers: the numbers that identify RDMA objects and operations.

#include <cstdint>

#include <rdmaxx/core/strong_integer.hpp>

namespace RDMAXX_NAMESPACE {

namespace detail {
template <bool Hexadecimal>
struct identifier_tag {
  static constexpr bool hexadecimal = Hexadecimal;
};
struct lkey_tag : identifier_tag<true> {};
struct rkey_tag : identifier_tag<true> {};
struct qpn_tag : identifier_tag<true> {};
struct psn_tag : identifier_tag<true> {};
struct qkey_tag : identifier_tag<true> {};
struct pkey_tag : identifier_tag<true> {};
struct lid_tag : identifier_tag<true> {};
struct guid_tag : identifier_tag<true> {};
struct wr_id_tag : identifier_tag<false> {};
}  // namespace detail

/// Names a registered region to the local device.
using lkey = strong_integer<detail::lkey_tag, std::uint32_t>;
/// Grants a peer access to a registered region.
using rkey = strong_integer<detail::rkey_tag, std::uint32_t>;
/// Queue pair number, 24 bits.
using qpn = strong_integer<detail::qpn_tag, std::uint32_t>;
/// Packet sequence number, 24 bits.
using psn = strong_integer<detail::psn_tag, std::uint32_t>;
/// Q_Key: a UD receiver drops datagrams that do not carry its own.
using qkey = strong_integer<detail::qkey_tag, std::uint32_t>;
/// Partition key.
using pkey = strong_integer<detail::pkey_tag, std::uint16_t>;
/// InfiniBand local identifier of a port; 0 on Ethernet.
using lid = strong_integer<detail::lid_tag, std::uint16_t>;
/// Globally unique identifier of a device, in host byte order.
using guid = strong_integer<detail::guid_tag, std::uint64_t>;
/// The caller's name for a work request, handed back in its completion.
using wr_id = strong_integer<detail::wr_id_tag, std::uint64_t>;

}  // namespace RDMAXX_NAMESPACE
