#pragma once

// remote_address: a place in a peer's memory and the key to it.

#include <cstdint>
#include <string>

#include <rdmaxx/core/identifiers.hpp>

namespace RDMAXX_NAMESPACE {

struct remote_address {
  std::uint64_t address = 0;
  rkey key{};

  /// The place `bytes` further on. Not checked: the peer's device refuses what lies outside its
  /// region.
  friend constexpr remote_address operator+(remote_address place, std::uint64_t bytes) noexcept {
    return {.address = place.address + bytes, .key = place.key};
  }
  friend constexpr bool operator==(const remote_address&, const remote_address&) noexcept = default;
};
[[nodiscard]] std::string describe(const remote_address& place);

}  // namespace RDMAXX_NAMESPACE
