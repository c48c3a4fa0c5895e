#include <rdmaxx/verbs/gid.hpp>

#include <algorithm>
#include <charconv>
#include <cstring>

#include <arpa/inet.h>
#include <fmt/format.h>

namespace RDMAXX_NAMESPACE {

namespace {

constexpr unsigned ipv4_prefix_bits = 96;
constexpr std::array<std::uint8_t, 12> ipv4_prefix{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};

}  // namespace

gid::gid(const ibv_gid& native) noexcept { std::memcpy(raw_.data(), native.raw, raw_.size()); }

result<gid> gid::parse(std::string_view text) {
  const std::string terminated(text);
  // inet_pton would read only the part before a zero byte.
  const bool whole = !text.contains('\0');
  std::array<std::uint8_t, 16> raw{};
  if (whole && inet_pton(AF_INET6, terminated.c_str(), raw.data()) == 1) return gid(raw);
  std::ranges::copy(ipv4_prefix, raw.begin());
  if (whole && inet_pton(AF_INET, terminated.c_str(), raw.data() + ipv4_prefix.size()) == 1)
    return gid(raw);
  return misuse_error("gid::parse",
                      fmt::format("\"{}\" is neither an IPv4 nor an IPv6 address", text),
                      "write 10.0.0.7, fe80::1 or ::ffff:10.0.0.7");
}

ibv_gid gid::native() const noexcept {
  ibv_gid native{};
  std::memcpy(native.raw, raw_.data(), raw_.size());
  return native;
}

bool gid::is_zero() const noexcept {
  return std::ranges::all_of(raw_, [](std::uint8_t byte) { return byte == 0; });
}

bool gid::is_ipv4_mapped() const noexcept {
  return std::equal(ipv4_prefix.begin(), ipv4_prefix.end(), raw_.begin());
}

bool gid::is_link_local() const noexcept { return raw_[0] == 0xfe && (raw_[1] & 0xc0U) == 0x80U; }

bool gid::matches(const gid& prefix, unsigned bits) const noexcept {
  for (unsigned i = 0; i < raw_.size() && bits > 0; ++i) {
    const unsigned here = std::min(bits, 8U);
    const auto mask = static_cast<std::uint8_t>(0xffU << (8 - here));
    if (((raw_[i] ^ prefix.raw_[i]) & mask) != 0) return false;
    bits -= here;
  }
  return true;
}

std::string describe(const gid& address) {
  std::array<char, INET6_ADDRSTRLEN> text{};
  return inet_ntop(AF_INET6, address.raw().data(), text.data(), text.size());
}

std::string_view describe(gid_type type) noexcept {
  switch (type) {
    case gid_type::infiniband:
      return "infiniband";
    case gid_type::roce_v1:
      return "roce_v1";
    case gid_type::roce_v2:
      return "roce_v2";
    case gid_type::iwarp:
      return "iwarp";
  }
  return "unknown";
}

std::string describe(const gid_entry& entry) {
  return fmt::format("port {} gid {} {} {}{}{}", entry.port, entry.index, describe(entry.address),
                     describe(entry.type), entry.netdev.empty() ? "" : " on ", entry.netdev);
}

result<subnet> subnet::parse(std::string_view text) {
  const auto slash = text.find('/');
  RDMAXX_TRY(const auto prefix, gid::parse(text.substr(0, slash)));
  const unsigned address_bits = prefix.is_ipv4_mapped() ? 128 - ipv4_prefix_bits : 128;
  unsigned bits = address_bits;
  if (slash != std::string_view::npos) {
    const auto digits = text.substr(slash + 1);
    const auto [end, failure] = std::from_chars(digits.data(), digits.data() + digits.size(), bits);
    if (failure != std::errc{} || end != digits.data() + digits.size() || bits > address_bits) {
      return misuse_error("subnet::parse",
                          fmt::format("\"{}\" has no prefix length of 0 to {}", text, address_bits),
                          "write 10.77.0.0/24 or fd77::/64");
    }
  }
  return subnet{.prefix = prefix, .bits = 128 - address_bits + bits};
}

std::string describe(const subnet& net) {
  // An IPv4 prefix in its usual notation, which parse() reads back.
  if (net.prefix.is_ipv4_mapped() && net.bits >= ipv4_prefix_bits) {
    std::array<char, INET_ADDRSTRLEN> text{};
    inet_ntop(AF_INET, net.prefix.raw().data() + ipv4_prefix_bits / 8, text.data(), text.size());
    return fmt::format("{}/{}", text.data(), net.bits - ipv4_prefix_bits);
  }
  return fmt::format("{}/{}", describe(net.prefix), net.bits);
}

}  // namespace RDMAXX_NAMESPACE
