#pragma once

// send_pool: the buffers from which one stream, or many, send. A stream borrows one when bytes are
// written, and gives it back when the device has sent them.
//
// Streams that share a pool borrow at most as many buffers as they have credits and, while more
// than half of the buffers are free, one more to gather small writes. So half of the buffers always
// return as soon as the device has sent them, whatever the peers' programs do: a peer that does not
// read cannot block other streams.
//
// Lifetime: the memory belongs to the caller and outlives the pool; the pool outlives the engines
// that send from it. Threads: one at a time, for a pool and all its engines.

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include <rdmaxx/core/text.hpp>

namespace RDMAXX_NAMESPACE::stream_protocol {

class send_pool {
 public:
  enum class use : std::uint8_t { by_one, by_many };

  /// As many buffers as fit into the memory.
  send_pool(std::span<std::byte> memory, std::uint32_t buffer_bytes, use who = use::by_one);

  [[nodiscard]] std::size_t size() const noexcept { return memory_.size() / buffer_bytes_; }
  [[nodiscard]] std::uint32_t buffer_bytes() const noexcept { return buffer_bytes_; }
  [[nodiscard]] std::size_t available() const noexcept { return free_.size(); }
  [[nodiscard]] bool is_shared() const noexcept { return use_ == use::by_many; }
  /// How many buffers a stream may borrow beyond its credits.
  [[nodiscard]] std::uint32_t lent_without_credit() const noexcept {
    return available() > size() / 2 ? 1 : 0;
  }
  [[nodiscard]] std::span<std::byte> memory_of(std::uint32_t buffer) const noexcept {
    return memory_.subspan(std::size_t{buffer} * buffer_bytes_, buffer_bytes_);
  }

 private:
  friend class send_half;

  /// Only if one is available().
  [[nodiscard]] std::uint32_t borrow() noexcept {
    const auto buffer = free_.back();
    free_.pop_back();
    return buffer;
  }
  void give_back(std::uint32_t buffer) noexcept { free_.push_back(buffer); }  // has the capacity

  std::span<std::byte> memory_;
  std::uint32_t buffer_bytes_;
  use use_;
  std::vector<std::uint32_t> free_;
};
/// "256 buffers of 4096 bytes, 250 available"
[[nodiscard]] std::string describe(const send_pool& pool);

}  // namespace RDMAXX_NAMESPACE::stream_protocol
