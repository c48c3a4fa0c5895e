#pragma once

// big_endian: reads and writes numbers in network byte order at an offset of a span. Not checked:
// the caller checks the span's size.

#include <bit>
#include <cstddef>
#include <cstring>
#include <span>

#include <rdmaxx/core/variant.hpp>

namespace RDMAXX_NAMESPACE {

/// Converts from or to network byte order: the same operation.
template <class T>
[[nodiscard]] constexpr T swapped_on_little_endian(T value) noexcept {
  return std::endian::native == std::endian::little ? std::byteswap(value) : value;
}

template <class T>
void put(std::span<std::byte> bytes, std::size_t at, T value) noexcept {
  value = swapped_on_little_endian(value);
  std::memcpy(bytes.data() + at, &value, sizeof(T));
}

template <class T>
[[nodiscard]] T get(std::span<const std::byte> bytes, std::size_t at) noexcept {
  T value{};
  std::memcpy(&value, bytes.data() + at, sizeof(T));
  return swapped_on_little_endian(value);
}

}  // namespace RDMAXX_NAMESPACE
