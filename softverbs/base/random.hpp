// Numbers that nobody can guess, from the kernel: whatever a peer or a neighbour must not be able
// to predict (keys, packet sequence numbers, identifiers) comes from here.
#pragma once

#include <concepts>
#include <cstddef>
#include <span>

namespace softverbs {

/// Fills the bytes from getrandom(2). Throws std::system_error where the kernel gives none.
void fill_with_random(std::span<std::byte> bytes);

template <std::unsigned_integral Number>
[[nodiscard]] Number random_number() {
  Number drawn{};
  fill_with_random(std::as_writable_bytes(std::span(&drawn, 1)));
  return drawn;
}

}  // namespace softverbs
