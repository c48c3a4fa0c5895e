#pragma once

// strong_integer: an integer that cannot be mistaken for another one.
//
// Verbs calls take many 32-bit numbers (keys, queue pair numbers, sequence numbers) that the C
// types do not tell apart. A strong_integer<Tag, T> compares, hashes and prints like its value, and
// converts to or from it only when asked.

#include <compare>
#include <cstddef>
#include <functional>
#include <ostream>
#include <string>

#include <rdmaxx/core/text.hpp>
#include <rdmaxx/core/variant.hpp>

namespace RDMAXX_NAMESPACE {

template <class Tag, class T>
class strong_integer {
 public:
  using value_type = T;

  constexpr strong_integer() noexcept = default;
  constexpr explicit strong_integer(T value) noexcept : value_(value) {}

  [[nodiscard]] constexpr T value() const noexcept { return value_; }
  friend constexpr auto operator<=>(strong_integer, strong_integer) noexcept = default;

 private:
  T value_{};
};

/// Identifiers that people know in hexadecimal (queue pair numbers, keys) print in hexadecimal.
template <class Tag, class T>
[[nodiscard]] std::string describe(strong_integer<Tag, T> integer) {
  if constexpr (Tag::hexadecimal) {
    return hexadecimal(integer.value());
  } else {
    return std::to_string(integer.value());
  }
}

}  // namespace RDMAXX_NAMESPACE

template <class Tag, class T>
struct std::hash<rdmaxx::strong_integer<Tag, T>> {
  std::size_t operator()(rdmaxx::strong_integer<Tag, T> integer) const noexcept {
    return std::hash<T>{}(integer.value());
  }
};
