#include <rdmaxx/stream/receive_pool.hpp>

#include <algorithm>

#include <fmt/format.h>

namespace RDMAXX_NAMESPACE::stream_protocol {

receive_pool::receive_pool(std::span<std::byte> memory, std::uint32_t buffer_bytes,
                           std::uint32_t spare)
    : memory_(memory),
      buffer_bytes_(buffer_bytes),
      spare_(spare),
      entries_(memory.size() / buffer_bytes) {}

std::span<std::byte> receive_pool::memory_of(std::size_t buffer) const noexcept {
  return memory_.subspan(buffer * buffer_bytes_, buffer_bytes_);
}

std::optional<std::size_t> receive_pool::next_to_post() noexcept {
  if (free_.first == none) return std::nullopt;
  const auto buffer = pop(free_);
  entries_[buffer].is = state::listed;
  return buffer;
}

void receive_pool::posted(std::size_t buffer) noexcept {
  if (buffer >= entries_.size() || entries_[buffer].is != state::listed) return;
  entries_[buffer].is = state::posted;
  --unposted_;
}

void receive_pool::returned(std::size_t buffer) noexcept {
  if (is_posted(buffer)) release(static_cast<std::uint32_t>(buffer));
}

void receive_pool::push(list& into, std::uint32_t buffer, state is) noexcept {
  entries_[buffer].next = none;
  entries_[buffer].is = is;
  if (into.first == none) {
    into.first = buffer;
  } else {
    entries_[into.last].next = buffer;
  }
  into.last = buffer;
}

std::uint32_t receive_pool::pop(list& from) noexcept {
  const auto buffer = from.first;
  from.first = entries_[buffer].next;
  return buffer;
}

void receive_pool::release(std::uint32_t buffer) noexcept {
  push(free_, buffer, state::free);
  ++unposted_;
}

std::uint32_t receive_pool::borrow(std::uint32_t wanted) noexcept {
  const auto lent = std::min(wanted, spare_);
  spare_ -= lent;
  return lent;
}

std::string describe(const receive_pool& pool) {
  return fmt::format("{} buffers of {} bytes, {}, {} to spare", pool.size(), pool.buffer_bytes(),
                     pool.has_unposted() ? "some to be posted" : "all posted or unread",
                     pool.spare());
}

}  // namespace RDMAXX_NAMESPACE::stream_protocol
