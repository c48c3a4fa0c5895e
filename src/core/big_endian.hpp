#pragma once

// big_endian: numbers in the byte order of the wire, at a place in a span. Not checked: the caller
// has looked at the span's size.

#include <cstddef>
#include <span>

namespace rdmaxx::inline v0 {

template <class T>
constexpr void put(std::span<std::byte> bytes, std::size_t at, T value) noexcept {
  for (std::size_t i = 0; i < sizeof(T); ++i) {
    bytes[at + i] = static_cast<std::byte>(value >> (8 * (sizeof(T) - 1 - i)));
  }
}

template <class T>
[[nodiscard]] constexpr T get(std::span<const std::byte> bytes, std::size_t at) noexcept {
  T value = 0;
  for (std::size_t i = 0; i < sizeof(T); ++i) {
    value = static_cast<T>((value << 8) | std::to_integer<T>(bytes[at + i]));
  }
  return value;
}

}  // namespace rdmaxx::inline v0
