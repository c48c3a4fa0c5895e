// The bytes of a request's elements: where they lie, and copying into them.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

#include <sys/uio.h>
#include <transport/memory_keys.hpp>
#include <transport/send_work.hpp>

namespace softverbs::transport {

/// The pieces of [offset, offset + bytes) of a request's elements, with their memory located.
class payload_pieces {
 public:
  static constexpr std::size_t most = 64;  // what SOFTVERBS_MAX_SGE can be

  /// False if a key or a bound forbids it.
  [[nodiscard]] bool collect(const memory_keys::use& memory, memory_domain domain,
                             std::span<const element> elements, std::uint64_t offset,
                             std::uint64_t bytes, unsigned rights) {
    size_ = 0;
    for (const auto& each : elements) {
      if (bytes == 0) break;
      if (offset >= each.length) {
        offset -= each.length;
        continue;
      }
      const auto here = std::min<std::uint64_t>(bytes, each.length - offset);
      auto* const found = memory.locate({.key = each.key,
                                         .domain = domain,
                                         .address = each.address + offset,
                                         .bytes = here,
                                         .rights = rights});
      if (found == nullptr) return false;
      pieces_[size_++] = {.iov_base = found, .iov_len = here};
      bytes -= here;
      offset = 0;
    }
    return bytes == 0;
  }
  void set(std::byte* data, std::size_t bytes) {
    size_ = bytes == 0 ? 0 : 1;
    pieces_[0] = {.iov_base = data, .iov_len = bytes};
  }
  [[nodiscard]] std::span<const iovec> get() const { return {pieces_.data(), size_}; }

  /// As many bytes as were collected.
  void fill_from(const std::byte* from) const {
    for (const auto& piece : get()) {
      std::memcpy(piece.iov_base, from, piece.iov_len);
      from += piece.iov_len;
    }
  }

 private:
  std::array<iovec, most> pieces_;
  std::size_t size_ = 0;
};

}  // namespace softverbs::transport
