#pragma once

// CRC-32 as its definition has it: one bit at a time, without any code of the library.

#include <cstddef>
#include <cstdint>
#include <span>

inline std::uint32_t crc32_bit_by_bit(std::uint32_t state, std::span<const std::byte> data) {
  for (const std::byte b : data) {
    for (unsigned bit = 0; bit < 8; ++bit) {
      const std::uint32_t out = (state ^ (std::to_integer<std::uint32_t>(b) >> bit)) & 1U;
      state = (state >> 1) ^ (out != 0 ? 0xedb88320 : 0);
    }
  }
  return state;
}
