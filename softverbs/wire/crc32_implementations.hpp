// The variants behind crc32.hpp, for it alone.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace softverbs::wire {

/// Sixteen bytes at a time, one table for each of their places. Runs anywhere.
[[nodiscard]] std::uint32_t crc32_tables(std::uint32_t state,
                                         std::span<const std::byte> data) noexcept;

#if defined(__x86_64__)
/// 64 bytes at a time; needs PCLMULQDQ and SSE4.1.
[[nodiscard]] std::uint32_t crc32_pclmul(std::uint32_t state,
                                         std::span<const std::byte> data) noexcept;

/// 128 bytes at a time; needs VPCLMULQDQ and AVX2.
[[nodiscard]] std::uint32_t crc32_vpclmul(std::uint32_t state,
                                          std::span<const std::byte> data) noexcept;
#endif

}  // namespace softverbs::wire
