#include <wire/icrc.hpp>

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>

#include <wire/big_endian.hpp>
#include <wire/crc32.hpp>
#include <wire/crc32_polynomial.hpp>
#include <wire/ip_udp.hpp>
#include <wire/packet.hpp>

namespace softverbs::wire {
namespace {

// Eight ones stand for the InfiniBand link header that RoCE does not have.
constexpr std::size_t link_header_bytes = 8;
constexpr std::uint32_t state_after_link_header = [] {
  std::uint32_t state = crc32_start;
  for (std::size_t i = 0; i < link_header_bytes; ++i) {
    state ^= 0xffU;
    for (int bit = 0; bit < 8; ++bit) state = polynomial::times_x(state);
  }
  return state;
}();

// Ones for what routers may change: TOS, TTL and checksums, or traffic class, flow label and hops.
void mask_ip_udp(std::byte* headers, std::size_t bytes) noexcept {
  const auto mask = [headers](std::size_t at, std::size_t count) {
    std::memset(headers + at, 0xff, count);
  };
  if (bytes == ipv4_bytes + udp_bytes) {
    mask(1, 1);
    mask(8, 1);
    mask(10, 2);
  } else {
    headers[0] |= std::byte{0x0f};
    mask(1, 3);
    mask(7, 1);
  }
  mask(bytes - 2, 2);
}

// The state at the end of `parts`, for a packet of that identification.
std::uint32_t state_after(const flow& packet_flow, std::uint16_t ipv4_id,
                          std::span<const iovec> parts) noexcept {
  std::size_t bytes = 0;
  for (const iovec& part : parts) bytes += part.iov_len;

  // The headers, and what fits of the rest, are gathered into one run: that is all of a small
  // packet, and one run is summed faster than several short ones.
  std::array<std::byte, 128> run;
  static_assert(run.size() >= most_ip_udp_bytes + bth_bytes);
  const std::size_t bth = encode_ip_udp(packet_flow, ipv4_id, bytes + icrc_bytes, run.data());
  mask_ip_udp(run.data(), bth);
  std::size_t used = bth;
  std::span<const std::byte> rest;  // of the part that did not fit
  while (rest.empty() && !parts.empty()) {
    rest = {static_cast<const std::byte*>(parts.front().iov_base), parts.front().iov_len};
    parts = parts.subspan(1);
    const std::size_t fits = std::min(rest.size(), run.size() - used);
    std::ranges::copy(rest.first(fits), run.data() + used);
    used += fits;
    rest = rest.subspan(fits);
  }
  run[bth + 4] = std::byte{0xff};  // FECN, BECN and reserved bits

  std::uint32_t state = crc32_update(state_after_link_header, std::span(run).first(used));
  state = crc32_update(state, rest);
  for (const iovec& part : parts) {
    state = crc32_update(state, {static_cast<const std::byte*>(part.iov_base), part.iov_len});
  }
  return state;
}

// a·b mod P. Each integer product sees one bit in four of either factor, so that its sums of up to
// eight ones do not run into each other, and their lowest bits are the carry-less product.
std::uint32_t multiply(std::uint32_t a, std::uint32_t b) noexcept {
  constexpr std::uint64_t every_fourth = 0x1111'1111'1111'1111;
  std::uint64_t product = 0;
  for (unsigned i = 0; i < 4; ++i) {
    for (unsigned k = 0; k < 4; ++k) {
      const std::uint64_t sums = (a & (every_fourth << i)) * (b & (every_fourth << k));
      product ^= sums & (every_fourth << ((i + k) % 4));
    }
  }
  product <<= 1;  // bit 63 - d is the coefficient of x^d
  // The lower half holds the powers from x^32 on. Four zero bytes multiply a state by x^32.
  static constexpr std::array<std::byte, 4> zeros{};
  return crc32_update(static_cast<std::uint32_t>(product), zeros) ^
         static_cast<std::uint32_t>(product >> 32);
}

// What undoes n bytes that follow: x^(-8n), for n = low + 256 high.
constexpr auto powers_of(std::uint32_t base) {
  std::array<std::uint32_t, 256> result{polynomial::one};
  for (std::size_t i = 1; i < result.size(); ++i) {
    result[i] = polynomial::multiply(result[i - 1], base);
  }
  return result;
}
constexpr auto back_by_bytes = powers_of(polynomial::x_to_the_minus(8));
constexpr auto back_by_256_bytes = powers_of(polynomial::x_to_the_minus(8 * 256));

// Whether some identification, with `following` bytes between it and the sum, changes the sum by
// `difference`: id(x) · x^(8 following + 32) = difference has one solution modulo P, and it is an
// identification if its degree is below 16.
bool is_of_identification(std::uint32_t difference, std::size_t following) noexcept {
  const std::size_t n = following + 4;
  const std::uint32_t id =
      multiply(difference, multiply(back_by_bytes[n % 256], back_by_256_bytes[n / 256 % 256]));
  return (id & 0xffffU) == 0;
}

}  // namespace

std::uint32_t icrc(const flow& packet_flow, std::uint16_t ipv4_id,
                   std::span<const iovec> parts) noexcept {
  return ~state_after(packet_flow, ipv4_id, parts);
}

bool icrc_holds(const flow& packet_flow, std::span<const std::byte> datagram) noexcept {
  constexpr std::size_t most_datagram_bytes = 0xffff - udp_bytes;
  if (datagram.size() < bth_bytes + icrc_bytes || datagram.size() > most_datagram_bytes)
    return false;
  const auto summed = datagram.first(datagram.size() - icrc_bytes);
  const iovec part{.iov_base = const_cast<std::byte*>(summed.data()), .iov_len = summed.size()};
  // The stored sum is little-endian.
  const std::uint32_t carried =
      std::byteswap(load_big<std::uint32_t>(datagram.data() + summed.size()));
  const std::uint32_t difference = icrc(packet_flow, 0, std::span(&part, 1)) ^ carried;
  if (difference == 0) return true;
  if (!packet_flow.source.is_ipv4()) return false;
  constexpr std::size_t identification_end = 6;
  return is_of_identification(difference,
                              ipv4_bytes - identification_end + udp_bytes + summed.size());
}

std::optional<packet> intact_packet(const flow& flow, std::span<const std::byte> datagram,
                                    icrc_rule rule) noexcept {
  auto decoded = decode(datagram);
  if (!decoded) return {};
  const bool summed =
      rule == icrc_rule::always || load_big<std::uint32_t>(datagram.last<icrc_bytes>().data()) != 0;
  if (summed && !icrc_holds(flow, datagram)) return {};
  return decoded;
}

}  // namespace softverbs::wire
