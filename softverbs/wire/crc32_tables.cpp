#include <array>
#include <utility>

#include <wire/crc32_implementations.hpp>
#include <wire/crc32_polynomial.hpp>

namespace softverbs::wire {
namespace {

constexpr std::size_t slice_bytes = 16;
using table = std::array<std::uint32_t, 256>;

// tables[k][b]: what byte b adds to the state when k more bytes follow it.
constexpr std::array<table, slice_bytes> tables = [] {
  std::array<table, slice_bytes> result{};
  for (std::uint32_t b = 0; b < 256; ++b) {
    std::uint32_t state = b;
    for (int bit = 0; bit < 8; ++bit) state = polynomial::times_x(state);
    result[0][b] = state;
  }
  for (std::size_t k = 1; k < slice_bytes; ++k) {
    for (std::size_t b = 0; b < 256; ++b) {
      const std::uint32_t before = result[k - 1][b];
      result[k][b] = (before >> 8) ^ result[0][before & 0xffU];
    }
  }
  return result;
}();

// The state after one slice. A fold expression, because compilers keep a loop as one; from the
// back, so that what depends on the state before comes last.
template <std::size_t... FromBack>
std::uint32_t after_slice(std::uint32_t state, const std::byte* at,
                          std::index_sequence<FromBack...>) {
  const auto byte = [state, at](std::size_t i) {
    const auto value = std::to_integer<std::uint32_t>(at[i]);
    return i < 4 ? value ^ ((state >> (8 * i)) & 0xffU) : value;
  };
  return (... ^ tables[FromBack][byte(slice_bytes - 1 - FromBack)]);
}

}  // namespace

std::uint32_t crc32_tables(std::uint32_t state, std::span<const std::byte> data) noexcept {
  const std::byte* at = data.data();
  std::size_t left = data.size();
  for (; left >= slice_bytes; at += slice_bytes, left -= slice_bytes) {
    state = after_slice(state, at, std::make_index_sequence<slice_bytes>());
  }
  for (; left != 0; ++at, --left) {
    state = (state >> 8) ^ tables[0][(state ^ std::to_integer<std::uint32_t>(*at)) & 0xffU];
  }
  return state;
}

}  // namespace softverbs::wire
