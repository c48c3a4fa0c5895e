// CRC-32 by carry-less multiplication.
//
// A 128-bit register that was loaded from memory is a polynomial whose coefficient of x^(127 - i)
// is bit i. "Folding" it by d bits replaces it by something of 128 bits that is congruent to its
// product with x^d, so that it can be added to what stands d bits further on; in the end one
// register is left, and is reduced to 32 bits. Several registers at a time hide the multiplier's
// latency.
//
// A reflected factor costs one power: the 128-bit carry-less product of two reflected 64-bit
// polynomials is that of the polynomials times x. The constants allow for it.
#if defined(__x86_64__)

#include <array>
#include <bit>

#include <immintrin.h>
#include <wire/crc32_implementations.hpp>
#include <wire/crc32_polynomial.hpp>

#define RDMAXX_PCLMUL [[gnu::target("pclmul,sse4.1"), gnu::always_inline]] inline
#define RDMAXX_VPCLMUL [[gnu::target("vpclmulqdq,avx2,pclmul"), gnu::always_inline]] inline

namespace softverbs::wire {
namespace {

// x^exponent mod P as a 64-bit factor.
consteval std::uint64_t factor(std::uint32_t exponent) {
  return static_cast<std::uint64_t>(polynomial::x_to_the(exponent)) << 32;
}

// The factors that fold by `bits`: for the register's lower half, which holds the higher powers,
// and for its upper half.
struct fold_factors {
  std::uint64_t lower;
  std::uint64_t upper;
};
consteval fold_factors fold_by(std::uint32_t bits) {
  return {.lower = factor(bits + 64 - 1), .upper = factor(bits - 1)};
}
constexpr fold_factors by_128 = fold_by(128);
constexpr fold_factors by_256 = fold_by(256);
constexpr fold_factors by_512 = fold_by(512);
constexpr fold_factors by_1024 = fold_by(1024);

// P and the quotient x^64 / P, of degree 32: bit 32 - d is the coefficient of x^d.
constexpr std::uint64_t modulus_33 = static_cast<std::uint64_t>(polynomial::modulus) << 1 | 1U;
constexpr std::uint64_t quotient_33 = [] {
  std::uint64_t quotient = 1;
  std::uint32_t remainder = polynomial::modulus;
  for (unsigned bit = 1; bit <= 32; ++bit) {
    quotient |= static_cast<std::uint64_t>(remainder & 1U) << bit;
    remainder = polynomial::times_x(remainder);
  }
  return quotient;
}();

// 16 bytes of it, from 16 + r, move a register r bytes towards its beginning; from r, they leave
// the first r bytes at the end. 0x80 makes PSHUFB write zero.
constexpr std::array<std::uint8_t, 48> shifts = [] {
  std::array<std::uint8_t, 48> result{};
  result.fill(0x80);
  for (std::uint8_t i = 0; i < 16; ++i) result[16U + i] = i;
  return result;
}();

RDMAXX_PCLMUL __m128i load(const void* from) {
  return _mm_loadu_si128(static_cast<const __m128i_u*>(from));
}

RDMAXX_PCLMUL __m128i pair(std::uint64_t lower, std::uint64_t upper) {
  return _mm_set_epi64x(std::bit_cast<long long>(upper), std::bit_cast<long long>(lower));
}

RDMAXX_PCLMUL __m128i fold(__m128i x, fold_factors by, __m128i next) {
  const __m128i factors = pair(by.lower, by.upper);
  const __m128i lower = _mm_clmulepi64_si128(x, factors, 0x00);
  const __m128i upper = _mm_clmulepi64_si128(x, factors, 0x11);
  return _mm_xor_si128(_mm_xor_si128(lower, upper), next);
}

// The state that a register stands for: its product with x^32, reduced.
RDMAXX_PCLMUL std::uint32_t reduce(__m128i x) {
  const __m128i factors = pair(factor(64 + 32 - 1), factor(64 - 1));
  // 160 bits to 96: the higher 64 move down, the lower 64 only take their place above x^32.
  x = _mm_xor_si128(_mm_clmulepi64_si128(x, factors, 0x00),
                    _mm_slli_si128(_mm_srli_si128(x, 8), 4));
  // 96 bits to 64: the higher 32, now the lower half, move down.
  x = _mm_xor_si128(_mm_clmulepi64_si128(x, factors, 0x10), x);
  // 64 bits to 32 (Barrett): less P times the quotient by P.
  const auto value = std::bit_cast<std::uint64_t>(_mm_extract_epi64(x, 1));
  const __m128i barrett = pair(quotient_33, modulus_33);
  const __m128i quotient = _mm_clmulepi64_si128(pair(value & 0xffff'ffffU, 0), barrett, 0x00);
  const __m128i multiple =
      _mm_clmulepi64_si128(_mm_and_si128(quotient, pair(0xffff'ffffU, 0)), barrett, 0x10);
  const auto remainder = value ^ std::bit_cast<std::uint64_t>(_mm_cvtsi128_si64(multiple));
  return static_cast<std::uint32_t>(remainder >> 32);
}

// Folds the last `left` bytes into x. At least 16 bytes stand before `at` + `left`.
RDMAXX_PCLMUL std::uint32_t finish(__m128i x, const std::byte* at, std::size_t left) {
  for (; left >= 16; at += 16, left -= 16) x = fold(x, by_128, load(at));
  if (left != 0) {
    // 16 + left bytes: the first `left` of them are folded onto the last 16.
    const __m128i up = load(shifts.data() + 16 + left);
    const __m128i first = _mm_shuffle_epi8(x, load(shifts.data() + left));
    const __m128i last = _mm_blendv_epi8(_mm_shuffle_epi8(x, up), load(at + left - 16), up);
    x = fold(first, by_128, last);
  }
  return reduce(x);
}

RDMAXX_VPCLMUL __m256i load_256(const void* from) {
  return _mm256_loadu_si256(static_cast<const __m256i_u*>(from));
}

RDMAXX_VPCLMUL __m256i fold_256(__m256i x, fold_factors by, __m256i next) {
  const __m256i factors = _mm256_broadcastsi128_si256(pair(by.lower, by.upper));
  const __m256i lower = _mm256_clmulepi64_epi128(x, factors, 0x00);
  const __m256i upper = _mm256_clmulepi64_epi128(x, factors, 0x11);
  return _mm256_xor_si256(_mm256_xor_si256(lower, upper), next);
}

}  // namespace

[[gnu::target("pclmul,sse4.1")]] std::uint32_t crc32_pclmul(
    std::uint32_t state, std::span<const std::byte> data) noexcept {
  const std::byte* at = data.data();
  std::size_t left = data.size();
  if (left < 16) return crc32_tables(state, data);

  __m128i x = _mm_xor_si128(load(at), pair(state, 0));
  if (left < 64) return finish(x, at + 16, left - 16);

  __m128i x1 = load(at + 16);
  __m128i x2 = load(at + 32);
  __m128i x3 = load(at + 48);
  for (at += 64, left -= 64; left >= 64; at += 64, left -= 64) {
    x = fold(x, by_512, load(at));
    x1 = fold(x1, by_512, load(at + 16));
    x2 = fold(x2, by_512, load(at + 32));
    x3 = fold(x3, by_512, load(at + 48));
  }
  // Two at a time, so that the longest chain is two folds.
  x = fold(fold(x, by_128, x1), by_256, fold(x2, by_128, x3));
  return finish(x, at, left);
}

[[gnu::target("vpclmulqdq,avx2,pclmul")]] std::uint32_t crc32_vpclmul(
    std::uint32_t state, std::span<const std::byte> data) noexcept {
  const std::byte* at = data.data();
  std::size_t left = data.size();
  // Below, filling and merging four wide registers costs more than they save.
  if (left < 256) return crc32_pclmul(state, data);

  __m256i x = _mm256_xor_si256(load_256(at), _mm256_zextsi128_si256(pair(state, 0)));
  __m256i x1 = load_256(at + 32);
  __m256i x2 = load_256(at + 64);
  __m256i x3 = load_256(at + 96);
  for (at += 128, left -= 128; left >= 128; at += 128, left -= 128) {
    x = fold_256(x, by_1024, load_256(at));
    x1 = fold_256(x1, by_1024, load_256(at + 32));
    x2 = fold_256(x2, by_1024, load_256(at + 64));
    x3 = fold_256(x3, by_1024, load_256(at + 96));
  }
  x = fold_256(fold_256(x, by_256, x1), by_512, fold_256(x2, by_256, x3));
  for (; left >= 32; at += 32, left -= 32) x = fold_256(x, by_256, load_256(at));
  return finish(fold(_mm256_castsi256_si128(x), by_128, _mm256_extracti128_si256(x, 1)), at, left);
}

}  // namespace softverbs::wire

#undef RDMAXX_PCLMUL
#undef RDMAXX_VPCLMUL

#endif
