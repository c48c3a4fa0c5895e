// Reads a fuzzer's input from the front. Behind its end there are zeros.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <span>

namespace fuzz {

/// What must hold whatever the input is.
inline void require(bool condition) {
  if (!condition) std::abort();
}

class input {
 public:
  explicit input(std::span<const std::uint8_t> bytes) : rest_(bytes) {}

  [[nodiscard]] bool is_empty() const { return rest_.empty(); }

  [[nodiscard]] std::uint8_t byte() {
    if (rest_.empty()) return 0;
    const auto first = rest_.front();
    rest_ = rest_.subspan(1);
    return first;
  }
  /// Little-endian, of 1 to 8 bytes.
  [[nodiscard]] std::uint64_t number(unsigned bytes) {
    std::uint64_t value = 0;
    for (unsigned i = 0; i < bytes; ++i) value |= std::uint64_t{byte()} << (8 * i);
    return value;
  }
  [[nodiscard]] bool chance() { return (byte() & 1) != 0; }
  /// Below `limit`, which is not 0.
  [[nodiscard]] std::size_t below(std::size_t limit) { return byte() % limit; }
  [[nodiscard]] std::span<const std::uint8_t> bytes(std::size_t count) {
    const auto taken = rest_.first(std::min(count, rest_.size()));
    rest_ = rest_.subspan(taken.size());
    return taken;
  }

  /// A number that breaks things more often than others do: a small one, or one at a limit.
  [[nodiscard]] std::uint64_t hostile() {
    static constexpr std::array<std::uint64_t, 12> favourites{
        0xff,         0x100,       0xffff,      0x1'0000,      0xff'ffff,
        0x7fff'ffff,  0x8000'0000, 0xffff'ffff, 0x1'0000'0000, 0x7fff'ffff'ffffffff,
        ~0ULL - 4095, ~0ULL};
    const auto choice = byte();
    if (choice < 0xc0) return choice & 0x3f;
    if (choice < 0xf0) return favourites[choice % favourites.size()];
    return number(8);
  }
  template <class Number>
  [[nodiscard]] Number hostile() {
    return static_cast<Number>(hostile());
  }

 private:
  std::span<const std::uint8_t> rest_;
};

}  // namespace fuzz
