#pragma once

// object_registry: finds the block of an object by its C pointer.
//
// Events name their object by its C pointer. Its *_context cannot be used: on an adopted device or
// channel, foreign code may have created objects with a *_context of its own.

#include <mutex>
#include <optional>
#include <unordered_map>

#include <rdmaxx/core/handle.hpp>

namespace RDMAXX_NAMESPACE::detail {

class object_registry {
 public:
  void add(const void* native, resource& block) {
    const std::lock_guard lock(mutex_);
    blocks_.insert_or_assign(native, &block);
  }
  /// Called after the C object was destroyed or handed back; its address may already belong to
  /// another.
  void remove(const void* native, const resource& block) noexcept {
    const std::lock_guard lock(mutex_);
    const auto found = blocks_.find(native);
    if (found != blocks_.end() && found->second == &block) blocks_.erase(found);
  }
  /// A reference to the object's block; an empty one if the object is foreign; nothing if it is
  /// just being destroyed, so that no handle refers to it any more.
  [[nodiscard]] std::optional<reference> find(const void* native) noexcept {
    const std::lock_guard lock(mutex_);
    const auto found = blocks_.find(native);
    if (found == blocks_.end()) return reference();
    if (!found->second->try_retain()) return std::nullopt;
    return reference(found->second);
  }

 private:
  std::mutex mutex_;
  std::unordered_map<const void*, resource*> blocks_;
};

}  // namespace RDMAXX_NAMESPACE::detail
