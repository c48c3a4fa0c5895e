#include <rdmaxx/verbs/remote_address.hpp>

#include <fmt/format.h>

#include "core/big_endian.hpp"

namespace RDMAXX_NAMESPACE {

namespace {
constexpr std::size_t address_at = 0;
constexpr std::size_t key_at = 8;
}  // namespace

std::array<std::byte, remote_address::serialized_size> remote_address::to_bytes() const noexcept {
  std::array<std::byte, serialized_size> bytes{};
  put(bytes, address_at, address);
  put(bytes, key_at, key.value());
  return bytes;
}

result<remote_address> remote_address::from_bytes(std::span<const std::byte> bytes) {
  if (bytes.size() != serialized_size) {
    return misuse_error("remote_address::from_bytes",
                        fmt::format("{} bytes instead of {}", bytes.size(), serialized_size),
                        "pass all bytes that to_bytes() returned");
  }
  return remote_address{.address = get<std::uint64_t>(bytes, address_at),
                        .key = rkey(get<std::uint32_t>(bytes, key_at))};
}

std::string describe(const remote_address& place) {
  return fmt::format("{:#x} with rkey {:#x}", place.address, place.key.value());
}

}  // namespace RDMAXX_NAMESPACE
