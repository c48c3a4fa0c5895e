// Integers in network byte order at any alignment.
#pragma once

#include <bit>
#include <concepts>
#include <cstddef>
#include <cstring>

namespace softverbs::wire {

template <std::unsigned_integral Integer>
[[nodiscard]] Integer load_big(const std::byte* from) noexcept {
  Integer value{};
  std::memcpy(&value, from, sizeof value);
  if constexpr (std::endian::native == std::endian::little) value = std::byteswap(value);
  return value;
}

template <std::unsigned_integral Integer>
void store_big(std::byte* to, Integer value) noexcept {
  if constexpr (std::endian::native == std::endian::little) value = std::byteswap(value);
  std::memcpy(to, &value, sizeof value);
}

}  // namespace softverbs::wire
