#include <rdmaxx/stream/receive_half.hpp>

#include <algorithm>
#include <cstring>
#include <utility>

#include <fmt/format.h>

namespace RDMAXX_NAMESPACE::stream_protocol {

receive_half::receive_half(engine_core& core)
    : core_(&core),
      expected_(core.terms.peer_first_sequence),
      granted_(core.terms.peer_first_sequence + core.terms.own.credits()),
      advertised_(granted_),
      ready_(expected_) {}

// --- reading -----------------------------------------------------------------------------------

std::span<const std::byte> receive_half::readable() const noexcept {
  if (unread_.first == receive_pool::none) return {};
  const auto& first = pool().entries_[unread_.first];
  return pool().memory_of(unread_.first).subspan(first.begin, first.end - first.begin);
}

void receive_half::consume(std::size_t bytes) noexcept {
  while (bytes != 0 && unread_.first != receive_pool::none) {
    auto& first = pool().entries_[unread_.first];
    const auto count =
        static_cast<std::uint32_t>(std::min<std::size_t>(bytes, first.end - first.begin));
    first.begin += count;
    available_ -= count;
    core_->numbers.bytes_read += count;
    bytes -= count;
    if (first.begin != first.end) continue;
    pool().release(pool().pop(unread_));
    --held_;
  }
}

std::size_t receive_half::read(std::span<std::byte> into) noexcept {
  auto rest = into;
  while (!rest.empty() && available_ != 0) {
    const auto here = readable();
    const auto count = std::min(here.size(), rest.size());
    std::memcpy(rest.data(), here.data(), count);
    consume(count);
    rest = rest.subspan(count);
  }
  return into.size() - rest.size();
}

bool receive_half::at_end() const noexcept {
  return available_ == 0 && (peer_fin_ || is_shut_down_) && (!core_->failure || core_->is_lost);
}

result<void> receive_half::check() const {
  if (!core_->failure || available_ != 0 || at_end()) return {};
  return *core_->failure;
}

void receive_half::shutdown() noexcept {
  if (std::exchange(is_shut_down_, true)) return;
  stop_due_ = !peer_fin_;
  drop_unread();
}

void receive_half::drop_unread() noexcept {
  while (unread_.first != receive_pool::none) pool().release(pool().pop(unread_));
  held_ = 0;
  available_ = 0;
}

void receive_half::leave() noexcept {
  drop_unread();
  pool().give_back(std::exchange(borrowed_, 0));
}

// --- what the peer may send --------------------------------------------------------------------

// A peer that has more ready than it may send gets spare buffers, if there are any; those that it
// no longer needs go back to the pool. Grants that have been sent stay valid until its fin, after
// which it sends nothing.
void receive_half::grant() noexcept {
  const bool needs_nothing = peer_fin_ || is_shut_down_;
  const auto needed =
      needs_nothing ? 0 : std::min(ready_ - expected_, core_->terms.own.most_credits());
  const auto possible = buffers() - held_;
  if (needed > possible) {
    const auto room = core_->terms.own.growth - borrowed_;
    borrowed_ += pool().borrow(std::min(needed - possible, room));
  } else if (borrowed_ != 0) {
    const auto kept = std::max(needed, peer_fin_ ? 0 : window());
    const auto unused = std::min(borrowed_, possible - kept);
    borrowed_ -= unused;
    pool().give_back(unused);
  }
  granted_ = peer_fin_ ? advertised_ : expected_ + buffers() - held_;
}

bool receive_half::is_credit_due() const noexcept {
  if (peer_fin_) return false;
  return granted_ - advertised_ > window();
}

// --- what the peer says ------------------------------------------------------------------------

std::optional<std::string> receive_half::objection_to(const frame_header& header) const {
  if (header.sequence != expected_)
    return fmt::format("frame {} instead of {}", header.sequence, expected_);
  if (header.kind != frame_kind::data) {
    const auto unacknowledged =
        static_cast<std::uint8_t>(control_received_ - control_acknowledged_);
    if (unacknowledged >= receive_window::control_buffers)
      return fmt::format("a {} frame too many", describe(header.kind));
    return std::nullopt;
  }
  if (peer_fin_) return "data after fin";
  if (advertised_ == expected_)
    return fmt::format("data frame {} without a credit", header.sequence);
  return std::nullopt;
}

void receive_half::take(const frame_header& header, std::uint32_t buffer) noexcept {
  ++core_->numbers.frames_received;
  if (header.kind != frame_kind::data) {
    ++control_received_;
  } else {
    ++expected_;
    peer_fin_ = header.fin;
  }
  ready_ = expected_ + header.wanted;
  if (header.kind == frame_kind::data && header.length != 0 && !is_shut_down_) {
    auto& one = pool().entries_[buffer];
    one.begin = frame_header_bytes;
    one.end = static_cast<std::uint32_t>(frame_header_bytes) + header.length;
    available_ += header.length;
    ++held_;
    pool().push(unread_, buffer, receive_pool::state::unread);
    return;
  }
  pool().release(buffer);
}

}  // namespace RDMAXX_NAMESPACE::stream_protocol
