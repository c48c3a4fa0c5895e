#include <rdmaxx/stream/receive_half.hpp>

#include <algorithm>
#include <cstring>
#include <utility>

#include <fmt/format.h>

namespace RDMAXX_NAMESPACE::stream_protocol {

receive_half::receive_half(engine_core& core)
    : core_(&core),
      entries_(core.terms.own.buffers),
      expected_(core.terms.peer_first_sequence),
      granted_(core.terms.peer_first_sequence + core.terms.own.buffers),
      advertised_(granted_) {}

// --- reading -----------------------------------------------------------------------------------

std::span<std::byte> receive_half::memory_of(std::size_t slot) const noexcept {
  const std::size_t bytes = core_->terms.own.buffer_bytes;
  return core_->memory.receive.subspan(slot * bytes, bytes);
}

std::span<const std::byte> receive_half::readable() const noexcept {
  if (unread_.first == no_slot) return {};
  const auto& first = entries_[unread_.first];
  return memory_of(unread_.first).subspan(first.begin, first.end - first.begin);
}

void receive_half::consume(std::size_t bytes) noexcept {
  while (bytes != 0 && unread_.first != no_slot) {
    auto& first = entries_[unread_.first];
    const auto count =
        static_cast<std::uint32_t>(std::min<std::size_t>(bytes, first.end - first.begin));
    first.begin += count;
    available_ -= count;
    core_->numbers.bytes_read += count;
    bytes -= count;
    if (first.begin == first.end) release(pop(unread_));
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
  while (unread_.first != no_slot) release(pop(unread_));
  available_ = 0;
}

void receive_half::drop_unread() noexcept {
  unread_ = {};
  available_ = 0;
}

// --- slots -------------------------------------------------------------------------------------

void receive_half::push(slot_list& list, std::uint32_t slot, slot_state state) noexcept {
  entries_[slot].next = no_slot;
  entries_[slot].state = state;
  if (list.first == no_slot) {
    list.first = slot;
  } else {
    entries_[list.last].next = slot;
  }
  list.last = slot;
}

std::uint32_t receive_half::pop(slot_list& list) noexcept {
  const auto slot = list.first;
  list.first = entries_[slot].next;
  return slot;
}

std::optional<std::size_t> receive_half::next_slot() noexcept {
  if (to_post_.first == no_slot || core_->failure) return std::nullopt;
  const auto slot = pop(to_post_);
  entries_[slot].state = slot_state::listed;
  return slot;
}

void receive_half::posted(std::size_t slot) noexcept {
  if (slot >= entries_.size()) return;
  auto& one = entries_[slot];
  if (one.state != slot_state::listed) return;
  if (std::exchange(one.is_control, false)) --control_to_post_;
  one.state = slot_state::posted;
  ++granted_;
}

bool receive_half::is_credit_due() const noexcept {
  // After its fin the peer sends little, and the reserve suffices for that.
  return !peer_fin_ && granted_ - advertised_ >= core_->terms.own.buffers / 2;
}

// --- what the peer says ------------------------------------------------------------------------

std::optional<std::string> receive_half::objection_to(const frame_header& header) const {
  if (header.sequence != expected_)
    return fmt::format("frame {} instead of {}", header.sequence, expected_);
  if (header.kind == frame_kind::data && peer_fin_) return "data after fin";
  return std::nullopt;
}

void receive_half::take(const frame_header& header, std::uint32_t slot) noexcept {
  ++expected_;
  ++core_->numbers.frames_received;
  auto& one = entries_[slot];
  if (header.kind != frame_kind::data) {
    one.is_control = true;
    ++control_to_post_;
  } else {
    peer_fin_ = header.fin;
    if (header.length != 0 && !is_shut_down_) {
      one.begin = frame_header_bytes;
      one.end = static_cast<std::uint32_t>(frame_header_bytes) + header.length;
      available_ += header.length;
      push(unread_, slot, slot_state::unread);
      return;
    }
  }
  release(slot);
}

}  // namespace RDMAXX_NAMESPACE::stream_protocol
