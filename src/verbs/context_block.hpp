#pragma once

// context_block: the shared state behind a context.

#include <mutex>
#include <optional>
#include <string>
#include <unordered_map>

#include <infiniband/verbs.h>

#include <rdmaxx/core/handle.hpp>
#include <rdmaxx/verbs/context.hpp>
#include <rdmaxx/verbs/device_attributes.hpp>

namespace rdmaxx::inline v0::detail {

/// Asynchronous events name their object by its C pointer. This is the way back to its block.
///
/// A queue's *_context cannot serve: on an adopted device foreign code may have made objects whose
/// *_context is theirs.
class object_registry {
 public:
  void add(const void* native, resource& block) {
    const std::lock_guard lock(mutex_);
    blocks_.insert_or_assign(native, &block);
  }
  /// Called when the C object was let go of; its address may already belong to another.
  void remove(const void* native, const resource& block) noexcept {
    const std::lock_guard lock(mutex_);
    const auto found = blocks_.find(native);
    if (found != blocks_.end() && found->second == &block) blocks_.erase(found);
  }
  /// A reference to the object's block; an empty one if the object is foreign; nothing if it is
  /// just being destroyed, so that nobody can care about it any more.
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

class context_block final : public native_resource<ibv_context> {
 public:
  context_block() : native_resource(ibv_close_device, "ibv_close_device") {}

  std::string device_name;
  transport_type transport = transport_type::unknown;
  /// Asked once, at opening: limits explain failures, and must not fail themselves then.
  device_attributes limits;
  object_registry objects;

 private:
  [[nodiscard]] std::string name() const override { return "context " + device_name; }
};

inline context_block& block_of(const context& ctx) noexcept {
  return handle_access::block<context_block>(ctx);
}

/// Makes a block for an open device and a handle to it. On failure the device stays open.
[[nodiscard]] result<context> wrap_context(ibv_context* native, adoption how);

}  // namespace rdmaxx::inline v0::detail
