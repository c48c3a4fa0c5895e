#include <transport/memory_keys.hpp>

#include <algorithm>
#include <span>
#include <tuple>
#include <utility>

#include <base/random.hpp>

namespace softverbs::transport {
namespace {

constexpr std::uint32_t tag_bits = 8;
constexpr std::uint32_t tag_mask = (1U << tag_bits) - 1;
// Half of what there is, so that a free index is drawn soon.
constexpr std::size_t most_indices = 1U << 23;

constexpr std::uint32_t index_of(std::uint32_t key) { return key >> tag_bits; }

/// Whether [address, address + bytes) lies in [start, start + size), without overflow.
constexpr bool inside(std::uint64_t address, std::uint64_t bytes, std::uint64_t start,
                      std::uint64_t size) {
  return address >= start && bytes <= size && address - start <= size - bytes;
}

}  // namespace

std::byte* memory_keys::use::locate(const request& wanted) const noexcept {
  const auto& found = table_.find(wanted.key);
  if (const memory_region* const region = found.region) {
    if (region->key != wanted.key || region->domain != wanted.domain) return nullptr;
    if ((region->rights & wanted.rights) != wanted.rights) return nullptr;
    if (!inside(wanted.address, wanted.bytes, region->iova, region->size)) return nullptr;
    return region->start + (wanted.address - region->iova);
  }
  const memory_window* const window = found.window;
  if (window == nullptr || !wanted.remote || window->bound_key != wanted.key) return nullptr;
  if (window->bound_to == nullptr || window->domain != wanted.domain) return nullptr;
  if (window->is_type_2 && window->qpn != wanted.qpn) return nullptr;
  if ((window->rights & wanted.rights) != wanted.rights) return nullptr;
  if (!inside(wanted.address, wanted.bytes, window->address, window->bytes)) return nullptr;
  return window->bound_to->start + window->offset + (wanted.address - window->address);
}

std::size_t memory_keys::position_of(std::uint32_t index) const noexcept {
  const auto mask = slots_.size() - 1;
  auto position = index & mask;
  while (slots_[position].index != index && slots_[position].index != 0)
    position = (position + 1) & mask;
  return position;
}

const memory_keys::slot& memory_keys::find(std::uint32_t key) const noexcept {
  static constexpr slot nothing;
  const auto index = index_of(key);
  return index == 0 ? nothing : slots_[position_of(index)];
}

memory_keys::slot& memory_keys::find(std::uint32_t key) noexcept {
  return slots_[position_of(index_of(key))];
}

std::uint32_t memory_keys::draw() {
  if (drawn_left_ == 0) {
    fill_with_random(std::as_writable_bytes(std::span(drawn_)));
    drawn_left_ = drawn_.size();
  }
  return drawn_[--drawn_left_];
}

void memory_keys::grow() {
  const auto before = std::exchange(slots_, std::vector<slot>(2 * slots_.size()));
  for (const auto& each : before) {
    if (each.index != 0) slots_[position_of(each.index)] = each;
  }
}

memory_keys::slot* memory_keys::take_slot(std::uint32_t& key) {
  if (taken_ >= most_ || taken_ >= most_indices) return nullptr;
  if (2 * (taken_ + 1) > slots_.size()) grow();
  for (;;) {
    key = draw();
    const auto index = index_of(key);
    if (index == 0 || std::ranges::find(freed_, index) != freed_.end()) continue;
    auto& found = slots_[position_of(index)];
    if (found.index != 0) continue;
    found.index = index;
    found.tag = static_cast<std::uint8_t>(key & tag_mask);
    ++taken_;
    return &found;
  }
}

void memory_keys::free_slot(std::uint32_t key) {
  const auto mask = slots_.size() - 1;
  auto hole = position_of(index_of(key));
  if (slots_[hole].index == 0) return;
  freed_[next_freed_++ % freed_.size()] = index_of(key);
  --taken_;
  slots_[hole] = {};
  // Those behind it that would not be found across the hole move into it.
  for (auto next = (hole + 1) & mask; slots_[next].index != 0; next = (next + 1) & mask) {
    const auto home = slots_[next].index & mask;
    if (((next - home) & mask) < ((next - hole) & mask)) continue;
    slots_[hole] = std::exchange(slots_[next], {});
    hole = next;
  }
}

bool memory_keys::add(memory_region& region) {
  const std::unique_lock lock(mutex_);
  std::uint32_t key = 0;
  auto* const taken = take_slot(key);
  if (taken == nullptr) return false;
  taken->region = &region;
  region.key = key;
  return true;
}

bool memory_keys::remove(memory_region& region) {
  const std::unique_lock lock(mutex_);
  if (region.windows != 0) return false;
  free_slot(region.key);
  return true;
}

memory_region* memory_keys::region_of(std::uint32_t key, memory_domain domain) const noexcept {
  auto* const region = find(key).region;
  return region != nullptr && region->key == key && region->domain == domain ? region : nullptr;
}

bool memory_keys::add(memory_window& window) {
  const std::unique_lock lock(mutex_);
  std::uint32_t key = 0;
  auto* const taken = take_slot(key);
  if (taken == nullptr) return false;
  taken->window = &window;
  window.next_key = key;
  return true;
}

void memory_keys::unbind(memory_window& window) {
  if (window.bound_to != nullptr) --window.bound_to->windows;
  window.bound_to = nullptr;
}

void memory_keys::remove(memory_window& window) {
  const std::unique_lock lock(mutex_);
  unbind(window);
  free_slot(window.next_key);
}

std::uint32_t memory_keys::choose_key(memory_window& window) {
  const std::unique_lock lock(mutex_);
  auto& own = find(window.next_key);
  ++own.tag;
  window.next_key = index_of(window.next_key) << tag_bits | own.tag;
  return window.next_key;
}

bool memory_keys::bind(const binding& wanted) {
  const std::unique_lock lock(mutex_);
  // Also 10.6.7.2.2: only the tag of a key is the consumer's choice.
  if (wanted.window == nullptr || std::as_const(*this).find(wanted.rkey).window != wanted.window)
    return false;
  auto& window = *wanted.window;
  if (window.domain != wanted.domain) return false;
  const auto [address, bytes, rights] = std::tuple(wanted.address, wanted.bytes, wanted.rights);
  // 10.6.7.2.2: only an invalid window can be bound.
  if (window.is_type_2 && (window.bound_to != nullptr || bytes == 0)) return false;
  auto* const region = wanted.region;
  if (bytes != 0) {
    if (region == nullptr || std::as_const(*this).find(wanted.region_key).region != region)
      return false;
    if (region->domain != window.domain) return false;
    if ((region->rights & access::bind_window) == 0) return false;
    constexpr unsigned writing = access::remote_write | access::remote_atomic;
    // A right of one's own means nothing for a window, but may stand among those of the peers.
    constexpr unsigned known =
        writing | access::remote_read | access::zero_based | access::local_write;
    if ((rights & ~known) != 0) return false;
    if ((rights & writing) != 0 && (region->rights & access::local_write) == 0) return false;
    if (!inside(address, bytes, region->iova, region->size)) return false;
  }
  unbind(window);
  if (window.is_type_2) {
    find(wanted.rkey).tag = static_cast<std::uint8_t>(wanted.rkey & tag_mask);
    window.next_key = wanted.rkey;
  }
  if (bytes != 0) {
    ++region->windows;
    window.bound_to = region;
    window.offset = address - region->iova;
  }
  window.bound_key = wanted.rkey;
  window.address = (rights & access::zero_based) != 0 ? 0 : address;
  window.bytes = bytes;
  window.rights = rights;
  window.qpn = wanted.qpn;
  return true;
}

bool memory_keys::invalidate(std::uint32_t rkey, memory_domain domain, std::uint32_t qpn) {
  const std::unique_lock lock(mutex_);
  auto* window = std::as_const(*this).find(rkey).window;
  if (window == nullptr || window->bound_key != rkey || !window->is_type_2) return false;
  if (window->bound_to == nullptr || window->domain != domain || window->qpn != qpn) return false;
  unbind(*window);
  return true;
}

void memory_keys::forget_queue_pair(std::uint32_t qpn) {
  const std::unique_lock lock(mutex_);
  for (auto& each : slots_) {
    if (each.window == nullptr || !each.window->is_type_2) continue;
    if (each.window->qpn == qpn) unbind(*each.window);
  }
}

}  // namespace softverbs::transport
