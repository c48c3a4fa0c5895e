#pragma once

// flags<E>: a set of the bits of an enum class.
//
//   enum class access : unsigned { local_write = 1, remote_write = 2 };
//   template <> inline constexpr bool is_flag_enum<access> = true;      // gives access | access
//   flags<access> granted = access::local_write | access::remote_write;
//   if (granted.has(access::remote_write)) …

#include <bit>
#include <initializer_list>
#include <string>
#include <type_traits>
#include <utility>

#include <rdmaxx/core/text.hpp>
#include <rdmaxx/core/variant.hpp>

namespace RDMAXX_NAMESPACE {

/// Specialised to true by each enum whose enumerators are bits.
template <class E>
inline constexpr bool is_flag_enum = false;

template <class E>
concept flag_enum = std::is_enum_v<E> && is_flag_enum<E>;

template <class E>
class flags {
  static_assert(std::is_enum_v<E>);

 public:
  using value_type = std::make_unsigned_t<std::underlying_type_t<E>>;

  constexpr flags() noexcept = default;
  // Implicit: a single bit is a set of one.
  constexpr flags(E bit) noexcept : bits_(static_cast<value_type>(bit)) {}
  constexpr flags(std::initializer_list<E> set) noexcept {
    for (const E bit : set) bits_ |= static_cast<value_type>(bit);
  }

  /// The set whose bits are those of a C mask; bits the enum does not name are kept.
  [[nodiscard]] static constexpr flags from_bits(value_type bits) noexcept {
    flags set;
    set.bits_ = bits;
    return set;
  }

  [[nodiscard]] constexpr value_type bits() const noexcept { return bits_; }
  [[nodiscard]] constexpr bool empty() const noexcept { return bits_ == 0; }
  [[nodiscard]] constexpr int count() const noexcept { return std::popcount(bits_); }
  /// True if every bit of `set` is set.
  [[nodiscard]] constexpr bool has(flags set) const noexcept {
    return (bits_ & set.bits_) == set.bits_;
  }
  /// True if at least one bit of `set` is set.
  [[nodiscard]] constexpr bool has_any(flags set) const noexcept {
    return (bits_ & set.bits_) != 0;
  }

  constexpr flags& operator|=(flags set) noexcept { return bits_ |= set.bits_, *this; }
  constexpr flags& operator&=(flags set) noexcept { return bits_ &= set.bits_, *this; }
  constexpr flags& operator-=(flags set) noexcept { return bits_ &= ~set.bits_, *this; }

  friend constexpr flags operator|(flags a, flags b) noexcept { return a |= b; }
  friend constexpr flags operator&(flags a, flags b) noexcept { return a &= b; }
  /// The bits of `a` that are not in `b`.
  friend constexpr flags operator-(flags a, flags b) noexcept { return a -= b; }
  friend constexpr bool operator==(flags, flags) noexcept = default;

 private:
  value_type bits_{};
};

template <flag_enum E>
[[nodiscard]] constexpr flags<E> operator|(E a, E b) noexcept {
  return flags<E>(a) | flags<E>(b);
}

/// "local_write|remote_read", "none" for the empty set; unnamed bits appear in hexadecimal.
template <class E>
[[nodiscard]] std::string describe(flags<E> set) {
  if (set.empty()) return "none";
  std::string text;
  for (auto rest = set.bits(); rest != 0; rest &= static_cast<decltype(rest)>(rest - 1)) {
    const auto bit = static_cast<typename flags<E>::value_type>(rest & (~rest + 1));
    if (!text.empty()) text += '|';
    const std::string_view name = describe(static_cast<E>(bit));
    text += name == "unknown" ? hexadecimal(bit) : std::string(name);
  }
  return text;
}

}  // namespace RDMAXX_NAMESPACE
