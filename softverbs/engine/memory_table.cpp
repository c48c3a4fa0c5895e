#include <engine/memory_table.hpp>

#include <cerrno>
#include <tuple>
#include <utility>

namespace softverbs::engine {
namespace {

constexpr std::uint32_t tag_bits = 8;
constexpr std::uint32_t tag_mask = (1U << tag_bits) - 1;
constexpr std::uint32_t most_indices = 1U << 24;
// A freed index waits behind this many others, so that a late packet does not meet its successor.
constexpr std::size_t freed_before_reuse = 64;

constexpr std::uint32_t index_of(std::uint32_t key) { return key >> tag_bits; }

/// Whether [address, address + bytes) lies in [start, start + size), without overflow.
constexpr bool inside(std::uint64_t address, std::uint64_t bytes, std::uint64_t start,
                      std::uint64_t size) {
  return address >= start && bytes <= size && address - start <= size - bytes;
}

}  // namespace

std::byte* memory_table::use::locate(const request& wanted) const noexcept {
  const auto index = index_of(wanted.key);
  if (index >= table_.slots_.size()) return nullptr;
  const auto& found = table_.slots_[index];
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

int memory_table::take_slot(std::uint32_t& key) {
  std::uint32_t index = 0;
  const bool full = slots_.size() >= most_indices || slots_.size() > most_;
  if (free_.size() > freed_before_reuse || (full && !free_.empty())) {
    index = free_.front();
    free_.erase(free_.begin());
  } else if (full) {
    return ENOMEM;
  } else {
    index = static_cast<std::uint32_t>(slots_.size());
    slots_.emplace_back();
  }
  auto& taken = slots_[index];
  taken.taken = true;
  ++taken.tag;
  key = index << tag_bits | taken.tag;
  return 0;
}

void memory_table::free_slot(std::uint32_t key) {
  const auto index = index_of(key);
  const auto tag = slots_[index].tag;
  slots_[index] = {.tag = tag};
  free_.push_back(index);
}

int memory_table::add(memory_region& region) {
  const std::unique_lock lock(mutex_);
  std::uint32_t key = 0;
  if (const int failure = take_slot(key)) return failure;
  slots_[index_of(key)].region = &region;
  region.lkey = region.rkey = key;
  return 0;
}

int memory_table::remove(memory_region& region) {
  const std::unique_lock lock(mutex_);
  if (region.windows != 0) return EBUSY;
  free_slot(region.lkey);
  return 0;
}

void memory_table::renew_key(memory_region& region) {
  auto& own = slots_[index_of(region.lkey)];
  ++own.tag;
  region.lkey = region.rkey = index_of(region.lkey) << tag_bits | own.tag;
}

int memory_table::add(memory_window& window) {
  const std::unique_lock lock(mutex_);
  std::uint32_t key = 0;
  if (const int failure = take_slot(key)) return failure;
  slots_[index_of(key)].window = &window;
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
  auto& own = slots_[index_of(window.rkey)];
  ++own.tag;
  window.rkey = index_of(window.rkey) << tag_bits | own.tag;
  return window.rkey;
}

int memory_table::bind(const binding& wanted) {
  const std::unique_lock lock(mutex_);
  // Also 10.6.7.2.2: only the tag of a key is the consumer's choice.
  const auto index = index_of(wanted.rkey);
  if (index >= slots_.size() || slots_[index].window != wanted.window) return EINVAL;
  if (wanted.window == nullptr || wanted.window->pd != wanted.pd) return EINVAL;
  auto& window = *wanted.window;
  const auto [address, bytes, access] = std::tuple(wanted.address, wanted.bytes, wanted.access);
  // 10.6.7.2.2: only an invalid window can be bound.
  if (window.type == IBV_MW_TYPE_2 && (window.bound_to != nullptr || bytes == 0)) return EINVAL;
  auto* const region = wanted.region;
  if (bytes != 0) {
    const auto place = index_of(wanted.region_key);
    if (place >= slots_.size() || slots_[place].region != region) return EINVAL;
    if (region == nullptr || region->pd != window.pd) return EINVAL;
    if ((region->access & IBV_ACCESS_MW_BIND) == 0) return EINVAL;
    constexpr unsigned writing = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC;
    if ((access & ~(writing | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_ZERO_BASED)) != 0) return EINVAL;
    if ((access & writing) != 0 && (region->access & IBV_ACCESS_LOCAL_WRITE) == 0) return EINVAL;
    if (!inside(address, bytes, region->iova, region->length)) return EINVAL;
  }
  unbind(window);
  if (window.type == IBV_MW_TYPE_2) {
    slots_[index].tag = static_cast<std::uint8_t>(wanted.rkey & tag_mask);
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
  const auto index = index_of(rkey);
  if (index >= slots_.size()) return false;
  auto* window = slots_[index].window;
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
