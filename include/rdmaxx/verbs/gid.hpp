#pragma once

// gid: the 128-bit address of an RDMA port, in the shape of an IPv6 address.
//
// On RoCE a GID is an IP address of the port's netdev (IPv4 ones mapped as ::ffff:a.b.c.d); on
// InfiniBand it is subnet prefix and port GUID; on iWARP it holds the netdev's MAC.

#include <array>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include <infiniband/verbs.h>

#include <rdmaxx/core/result.hpp>

namespace RDMAXX_NAMESPACE {

class gid {
 public:
  constexpr gid() noexcept = default;
  constexpr explicit gid(const std::array<std::uint8_t, 16>& raw) noexcept : raw_(raw) {}
  explicit gid(const ibv_gid& native) noexcept;

  /// From "10.0.0.7", "fe80::1" or a GID in that notation.
  [[nodiscard]] static result<gid> parse(std::string_view text);

  [[nodiscard]] constexpr const std::array<std::uint8_t, 16>& raw() const noexcept { return raw_; }
  [[nodiscard]] ibv_gid native() const noexcept;

  [[nodiscard]] bool is_zero() const noexcept;
  /// ::ffff:a.b.c.d
  [[nodiscard]] bool is_ipv4_mapped() const noexcept;
  /// fe80::/10
  [[nodiscard]] bool is_link_local() const noexcept;
  /// True if the first `bits` bits are those of `prefix`. An IPv4 prefix length counts from bit 96.
  [[nodiscard]] bool matches(const gid& prefix, unsigned bits) const noexcept;

  friend constexpr auto operator<=>(const gid&, const gid&) noexcept = default;

 private:
  std::array<std::uint8_t, 16> raw_{};
};
[[nodiscard]] std::string describe(const gid& address);

enum class gid_type : std::uint8_t {
  infiniband = IBV_GID_TYPE_IB,
  roce_v1 = IBV_GID_TYPE_ROCE_V1,
  roce_v2 = IBV_GID_TYPE_ROCE_V2,
  iwarp = 0xff,  ///< no C value: libibverbs calls these entries InfiniBand
};
[[nodiscard]] std::string_view describe(gid_type type) noexcept;

/// One row of a port's GID table.
struct gid_entry {
  gid address{};
  std::uint8_t port = 1;
  std::uint32_t index = 0;
  gid_type type = gid_type::infiniband;
  std::uint32_t netdev_index = 0;  ///< 0 if the device does not report it
  std::string netdev{};            ///< empty if there is none (or it has gone)
};
[[nodiscard]] std::string describe(const gid_entry& entry);

/// An address with a prefix length: "10.77.0.0/24", "fd77::/64"; without a slash, one host.
struct subnet {
  gid prefix{};
  unsigned bits = 128;  ///< counted in the GID's 128 bits, so an IPv4 /24 is 120

  [[nodiscard]] static result<subnet> parse(std::string_view text);
  [[nodiscard]] bool contains(const gid& address) const noexcept {
    return address.matches(prefix, bits);
  }
};
[[nodiscard]] std::string describe(const subnet& net);

}  // namespace RDMAXX_NAMESPACE
