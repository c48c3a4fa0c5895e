// CRC-32 with Ethernet's polynomial, bits reflected (zlib's crc32), over data that arrives in
// pieces.
//
// crc32_update() takes the fastest variant that the processor has, chosen at the first call. Pure
// functions: any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

namespace softverbs::wire {

/// The state before the first byte. The sum is the complement of the state after the last one.
inline constexpr std::uint32_t crc32_start = 0xffff'ffff;

/// The state after `data`, from the state before it.
[[nodiscard]] std::uint32_t crc32_update(std::uint32_t state,
                                         std::span<const std::byte> data) noexcept;

struct crc32_variant {
  std::string_view name;
  std::uint32_t (*update)(std::uint32_t state, std::span<const std::byte> data) noexcept;
};

/// Those that this processor can run, the fastest last.
[[nodiscard]] std::span<const crc32_variant> crc32_variants() noexcept;

}  // namespace softverbs::wire
