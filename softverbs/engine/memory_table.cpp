#include <engine/memory_table.hpp>

#include <algorithm>
#include <cerrno>
#include <span>
#include <tuple>
#include <utility>

#include <base/random.hpp>

namespace softverbs::engine {
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

std::byte* memory_table::use::locate(const request& wanted) const noexcept {
  const auto& found = table_.find(wanted.key);
  const memory_region* region = found.region;
  if (region != nullptr) {
    if (region->lkey != wanted.key || region->pd != wanted.pd) return nullptr;
    if ((region->access & wanted.access) != wanted.access) return nullptr;
    if (!inside(wanted.address, wanted.bytes, region->iova, region->length)) return nullptr;
  } else {
    const memory_window* window = found.window;
    if (window == nullptr || !wanted.remote || window->key != wanted.key) return nullptr;
    region = window->bound_to;
    if (region == nullptr || window->pd != wanted.pd) return nullptr;
    if (window->type == IBV_MW_TYPE_2 && window->qpn != wanted.qpn) return nullptr;
    if ((window->access & wanted.access) != wanted.access) return nullptr;
    if (!inside(wanted.address, wanted.bytes, window->address, window->bytes)) return nullptr;
    return static_cast<std::byte*>(region->addr) + window->offset +
           (wanted.address - window->address);
  }
  return static_cast<std::byte*>(region->addr) + (wanted.address - region->iova);
}

std::size_t memory_table::position_of(std::uint32_t index) const noexcept {
  const auto mask = slots_.size() - 1;
  auto position = index & mask;
  while (slots_[position].index != index && slots_[position].index != 0)
    position = (position + 1) & mask;
  return position;
}

const memory_table::slot& memory_table::find(std::uint32_t key) const noexcept {
  static constexpr slot nothing;
  const auto index = index_of(key);
  return index == 0 ? nothing : slots_[position_of(index)];
}

memory_table::slot& memory_table::find(std::uint32_t key) noexcept {
  return slots_[position_of(index_of(key))];
}

std::uint32_t memory_table::draw() {
  if (drawn_left_ == 0) {
    fill_with_random(std::as_writable_bytes(std::span(drawn_)));
    drawn_left_ = drawn_.size();
  }
  return drawn_[--drawn_left_];
}

void memory_table::grow() {
  const auto before = std::exchange(slots_, std::vector<slot>(2 * slots_.size()));
  for (const auto& each : before) {
    if (each.index != 0) slots_[position_of(each.index)] = each;
  }
}

memory_table::slot* memory_table::take_slot(std::uint32_t& key) {
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

void memory_table::free_slot(std::uint32_t key) {
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

int memory_table::add(memory_region& region) {
  const std::unique_lock lock(mutex_);
  std::uint32_t key = 0;
  auto* const taken = take_slot(key);
  if (taken == nullptr) return ENOMEM;
  taken->region = &region;
  region.lkey = region.rkey = key;
  return 0;
}

int memory_table::remove(memory_region& region) {
  const std::unique_lock lock(mutex_);
  if (region.windows != 0) return EBUSY;
  free_slot(region.lkey);
  return 0;
}

memory_region* memory_table::import(std::uint32_t key, const ibv_pd* pd) {
  const std::unique_lock lock(mutex_);
  auto* const region = std::as_const(*this).find(key).region;
  if (region == nullptr || region->lkey != key || region->pd != pd) return nullptr;
  region->imports.add();
  return region;
}

int memory_table::add(memory_window& window) {
  const std::unique_lock lock(mutex_);
  std::uint32_t key = 0;
  auto* const taken = take_slot(key);
  if (taken == nullptr) return ENOMEM;
  taken->window = &window;
  window.rkey = key;
  return 0;
}

void memory_table::unbind(memory_window& window) {
  if (window.bound_to != nullptr) --window.bound_to->windows;
  window.bound_to = nullptr;
}

void memory_table::remove(memory_window& window) {
  const std::unique_lock lock(mutex_);
  unbind(window);
  free_slot(window.rkey);
}

std::uint32_t memory_table::choose_key(memory_window& window) {
  const std::unique_lock lock(mutex_);
  auto& own = find(window.rkey);
  ++own.tag;
  window.rkey = index_of(window.rkey) << tag_bits | own.tag;
  return window.rkey;
}

int memory_table::bind(const binding& wanted) {
  const std::unique_lock lock(mutex_);
  // Also 10.6.7.2.2: only the tag of a key is the consumer's choice.
  if (wanted.window == nullptr || std::as_const(*this).find(wanted.rkey).window != wanted.window)
    return EINVAL;
  if (wanted.window->pd != wanted.pd) return EINVAL;
  auto& window = *wanted.window;
  const auto [address, bytes, access] = std::tuple(wanted.address, wanted.bytes, wanted.access);
  // 10.6.7.2.2: only an invalid window can be bound.
  if (window.type == IBV_MW_TYPE_2 && (window.bound_to != nullptr || bytes == 0)) return EINVAL;
  auto* const region = wanted.region;
  if (bytes != 0) {
    if (region == nullptr || std::as_const(*this).find(wanted.region_key).region != region)
      return EINVAL;
    if (region->pd != window.pd) return EINVAL;
    if ((region->access & IBV_ACCESS_MW_BIND) == 0) return EINVAL;
    constexpr unsigned writing = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC;
    // A right of one's own means nothing for a window, but may stand among those of the peers.
    constexpr unsigned known =
        writing | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_ZERO_BASED | IBV_ACCESS_LOCAL_WRITE;
    if ((access & ~known) != 0) return EINVAL;
    if ((access & writing) != 0 && (region->access & IBV_ACCESS_LOCAL_WRITE) == 0) return EINVAL;
    if (!inside(address, bytes, region->iova, region->length)) return EINVAL;
  }
  unbind(window);
  if (window.type == IBV_MW_TYPE_2) {
    find(wanted.rkey).tag = static_cast<std::uint8_t>(wanted.rkey & tag_mask);
    window.rkey = wanted.rkey;
  }
  if (bytes != 0) {
    ++region->windows;
    window.bound_to = region;
    window.offset = address - region->iova;
  }
  window.key = wanted.rkey;
  window.address = (access & IBV_ACCESS_ZERO_BASED) != 0 ? 0 : address;
  window.bytes = bytes;
  window.access = access;
  window.qpn = wanted.qpn;
  return 0;
}

bool memory_table::invalidate(std::uint32_t rkey, const ibv_pd* pd, std::uint32_t qpn) {
  const std::unique_lock lock(mutex_);
  auto* window = std::as_const(*this).find(rkey).window;
  if (window == nullptr || window->key != rkey || window->type != IBV_MW_TYPE_2) return false;
  if (window->bound_to == nullptr || window->pd != pd || window->qpn != qpn) return false;
  unbind(*window);
  return true;
}

void memory_table::forget_queue_pair(std::uint32_t qpn) {
  const std::unique_lock lock(mutex_);
  for (auto& each : slots_) {
    if (each.window == nullptr || each.window->type != IBV_MW_TYPE_2) continue;
    if (each.window->qpn == qpn) unbind(*each.window);
  }
}

}  // namespace softverbs::engine
