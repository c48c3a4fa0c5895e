#pragma once

// remote_address: a place in a peer's memory and the key to it.
//
//   stream.write_all(mr.remote().to_bytes()).value();             // any channel will do
//   auto there = remote_address::from_bytes(received).value();
//   qp.post(write_wr{.from = …, .to = there + 64}).value();
//
// A value. Anyone who has it can access the region: send it only to the peer that needs it.

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include <rdmaxx/core/identifiers.hpp>
#include <rdmaxx/core/result.hpp>

namespace RDMAXX_NAMESPACE {

struct remote_address {
  std::uint64_t address = 0;
  rkey key{};

  /// Layout (big-endian): address (8), key (4).
  static constexpr std::size_t serialized_size = 12;

  [[nodiscard]] std::array<std::byte, serialized_size> to_bytes() const noexcept;
  /// Anything but serialized_size bytes is an error.
  [[nodiscard]] static result<remote_address> from_bytes(std::span<const std::byte> bytes);

  /// The address `bytes` further on. Not checked: the peer's device refuses access outside its
  /// region.
  friend constexpr remote_address operator+(remote_address place, std::uint64_t bytes) noexcept {
    return {.address = place.address + bytes, .key = place.key};
  }
  friend constexpr bool operator==(const remote_address&, const remote_address&) noexcept = default;
};
[[nodiscard]] std::string describe(const remote_address& place);

}  // namespace RDMAXX_NAMESPACE
