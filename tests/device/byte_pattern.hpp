#pragma once

// byte_pattern: bytes that can be recognised when they arrive.

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <vector>

#include <gtest/gtest.h>

namespace rdmaxx::device_tests {

/// Neighbouring bytes, and the same positions with other seeds, differ.
[[nodiscard]] constexpr std::byte pattern_byte(std::size_t place, std::uint64_t seed) noexcept {
  std::uint64_t mixed = (place + 1) * 0x9e3779b97f4a7c15U + seed * 0xbf58476d1ce4e5b9U;
  mixed ^= mixed >> 29U;
  return static_cast<std::byte>(mixed & 0xffU);
}

inline void fill_pattern(std::span<std::byte> bytes, std::uint64_t seed) noexcept {
  for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = pattern_byte(i, seed);
}

[[nodiscard]] inline std::vector<std::byte> pattern(std::size_t count, std::uint64_t seed) {
  std::vector<std::byte> bytes(count);
  fill_pattern(bytes, seed);
  return bytes;
}

[[nodiscard]] inline ::testing::AssertionResult same_bytes(std::span<const std::byte> found,
                                                           std::span<const std::byte> expected) {
  if (found.size() != expected.size()) {
    return ::testing::AssertionFailure() << found.size() << " bytes instead of " << expected.size();
  }
  for (std::size_t i = 0; i < found.size(); ++i) {
    if (found[i] == expected[i]) continue;
    return ::testing::AssertionFailure()
           << "byte " << i << " of " << found.size() << " is " << std::to_integer<int>(found[i])
           << " instead of " << std::to_integer<int>(expected[i]);
  }
  return ::testing::AssertionSuccess();
}

[[nodiscard]] inline ::testing::AssertionResult all_zero(std::span<const std::byte> bytes) {
  return same_bytes(bytes, std::vector<std::byte>(bytes.size()));
}

}  // namespace rdmaxx::device_tests
