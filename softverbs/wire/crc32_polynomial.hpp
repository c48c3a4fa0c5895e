// Polynomials over GF(2) modulo CRC-32's, P = x^32 + x^26 + x^23 + … + 1: the arithmetic behind the
// tables and constants of the CRC's variants.
//
// A polynomial of degree below 32 is an integer whose bit 31 - d is the coefficient of x^d
// ("reflected"), because the CRC takes each byte's lowest bit first.
#pragma once

#include <cstdint>

namespace softverbs::wire::polynomial {

inline constexpr std::uint32_t modulus = 0xedb8'8320;  ///< P - x^32
inline constexpr std::uint32_t one = 0x8000'0000;

[[nodiscard]] constexpr std::uint32_t times_x(std::uint32_t a) {
  return (a >> 1) ^ ((a & 1U) != 0 ? modulus : 0);
}

/// Bit by bit: for constants.
[[nodiscard]] constexpr std::uint32_t multiply(std::uint32_t a, std::uint32_t b) {
  std::uint32_t product = 0;
  for (std::uint32_t power = one; power != 0; power >>= 1) {
    if ((b & power) != 0) product ^= a;
    a = times_x(a);
  }
  return product;
}

[[nodiscard]] constexpr std::uint32_t x_to_the(std::uint32_t exponent) {
  std::uint32_t result = one;
  for (std::uint32_t square = times_x(one); exponent != 0; exponent >>= 1) {
    if ((exponent & 1U) != 0) result = multiply(result, square);
    square = multiply(square, square);
  }
  return result;
}

/// x^-exponent: P is primitive, so x^(2^32 - 1) = 1.
[[nodiscard]] constexpr std::uint32_t x_to_the_minus(std::uint32_t exponent) {
  return x_to_the(~exponent);
}

}  // namespace softverbs::wire::polynomial
