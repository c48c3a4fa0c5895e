#pragma once

// receive_pool: the buffers into which the frames of one stream, or of many, arrive.
//
// All buffers have one size, and the one posted first takes the next frame, so a stream that shares
// a pool owns no particular buffers, but a number of them: always the `buffers` of its
// receive_window, and in addition those it borrows from the pool's spare ones while its peer is
// busy. As long as all streams keep to that, and all free buffers are posted, every frame that a
// peer may send finds a buffer.
//
//   while (auto buffer = pool.next_to_post()) { post(*buffer); pool.posted(*buffer); }
//
// Lifetime: the memory belongs to the caller and outlives the pool; the pool outlives the engines
// that receive into it. Threads: one at a time, for a pool and all its engines.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <rdmaxx/core/text.hpp>

namespace RDMAXX_NAMESPACE::stream_protocol {

class receive_pool {
 public:
  /// As many buffers as fit into the memory, all of them posted. `spare` of them belong to no
  /// stream.
  receive_pool(std::span<std::byte> memory, std::uint32_t buffer_bytes, std::uint32_t spare = 0);

  [[nodiscard]] std::size_t size() const noexcept { return entries_.size(); }
  [[nodiscard]] std::uint32_t buffer_bytes() const noexcept { return buffer_bytes_; }
  /// Spare buffers that are not borrowed.
  [[nodiscard]] std::uint32_t spare() const noexcept { return spare_; }
  [[nodiscard]] std::span<std::byte> memory_of(std::size_t buffer) const noexcept;

  /// The next buffer to post.
  [[nodiscard]] std::optional<std::size_t> next_to_post() noexcept;
  /// The buffer has been posted, so it may be granted to a peer. Ignores buffers that were not
  /// handed out.
  void posted(std::size_t buffer) noexcept;
  /// True if a buffer is free but not posted.
  [[nodiscard]] bool has_unposted() const noexcept { return unposted_ != 0; }
  /// A buffer has completed without a frame, or for a stream that no longer exists.
  void returned(std::size_t buffer) noexcept;

 private:
  friend class receive_half;

  enum class state : std::uint8_t { posted, unread, free, listed };
  static constexpr std::uint32_t none = ~std::uint32_t{0};
  struct entry {
    std::uint32_t next = none;  // in its list
    std::uint32_t begin = 0;    // of the unread bytes, from the start of the buffer
    std::uint32_t end = 0;
    state is = state::posted;
  };
  /// A list of entries in order of arrival.
  struct list {
    std::uint32_t first = none;
    std::uint32_t last = none;
  };

  [[nodiscard]] bool is_posted(std::size_t buffer) const noexcept {
    return buffer < entries_.size() && entries_[buffer].is == state::posted;
  }
  void push(list& into, std::uint32_t buffer, state is) noexcept;
  std::uint32_t pop(list& from) noexcept;
  void release(std::uint32_t buffer) noexcept;
  /// At most as many as there are.
  [[nodiscard]] std::uint32_t borrow(std::uint32_t wanted) noexcept;
  void give_back(std::uint32_t borrowed) noexcept { spare_ += borrowed; }

  std::span<std::byte> memory_;
  std::uint32_t buffer_bytes_;
  std::uint32_t spare_;
  std::vector<entry> entries_;
  list free_;
  std::size_t unposted_ = 0;  // free, or handed out to be posted
};
/// "64 buffers of 16384 bytes, some to be posted, 16 to spare"
[[nodiscard]] std::string describe(const receive_pool& pool);

}  // namespace RDMAXX_NAMESPACE::stream_protocol
