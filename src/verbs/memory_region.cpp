#include <rdmaxx/verbs/memory_region.hpp>

#include <fmt/format.h>

#include <rdmaxx/core/result.hpp>

#include "memory_region_block.hpp"

namespace RDMAXX_NAMESPACE {

result<memory_region> memory_region::adopt(ibv_mr* native, const protection_domain& pd,
                                           access_flags access, adoption how) {
  if (native == nullptr || !pd)
    return misuse_error("memory_region::adopt", "the C region or the domain is null");
  if (native->pd != pd.native())
    return misuse_error("memory_region::adopt", "the region belongs to another domain");
  auto* const block = new detail::memory_region_block(pd, {});
  block->native = native;
  block->adopted = std::move(how);
  return memory_region(native, detail::reference(block), access);
}

error memory_region::outside(std::span<const std::byte> bytes, std::string_view operation) const {
  const auto call = fmt::format("memory_region::{}", operation);
  const auto start = reinterpret_cast<std::uintptr_t>(bytes.data());
  const auto first = reinterpret_cast<std::uintptr_t>(data());
  if (operation == "scatter" && !writable()) {
    return misuse_error(call, "the region was registered for reading only",
                        "register it with register_local() to receive or read into it");
  }
  if (bytes.size() > std::numeric_limits<std::uint32_t>::max()) {
    return misuse_error(
        call, fmt::format("{} bytes do not fit one element", bytes.size()),
        "an element holds less than 4 GiB: split the bytes over several elements or requests");
  }
  return misuse_error(
      call,
      fmt::format("the {} bytes at {:#x} lie outside the region of {} bytes at {:#x}", bytes.size(),
                  start, size(), first),
      "pass a part of the memory that was registered");
}

void memory_region::throw_outside(std::span<const std::byte> bytes,
                                  std::string_view operation) const {
  throw exception(outside(bytes, operation));
}

remote_address memory_region::remote(std::size_t offset) const {
  if (offset > size()) {
    throw exception(
        misuse_error("memory_region::remote",
                     fmt::format("offset {} is beyond the region's {} bytes", offset, size())));
  }
  return {.address = place_of(data() + offset), .key = rkey()};
}

std::string describe(const memory_region& region) {
  if (!region) return "memory_region (empty)";
  return fmt::format("memory_region {} bytes at {} lkey {:#x} rkey {:#x} {}", region.size(),
                     fmt::ptr(static_cast<const void*>(region.data())), region.lkey().value(),
                     region.rkey().value(), describe(region.access()));
}

}  // namespace RDMAXX_NAMESPACE
