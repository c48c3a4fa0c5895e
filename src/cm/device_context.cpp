#include "cm/device_context.hpp"

#include <mutex>
#include <unordered_map>

namespace RDMAXX_NAMESPACE::detail {

namespace {

struct opened_devices {
  std::mutex mutex;
  std::unordered_map<const ibv_context*, context> contexts;

  /// Never destroyed: handles may be used until the process ends.
  static opened_devices& get() {
    static auto* const only = new opened_devices;
    return *only;
  }
};

}  // namespace

result<context> device_context(ibv_context* native) {
  auto& opened = opened_devices::get();
  const std::lock_guard lock(opened.mutex);
  if (const auto known = opened.contexts.find(native); known != opened.contexts.end())
    return known->second;
  RDMAXX_TRY(auto adopted, context::adopt(native, {.kind = ownership::borrowed}));
  opened.contexts.emplace(native, adopted);
  return adopted;
}

void forget_device_context(const ibv_context* native) {
  auto& opened = opened_devices::get();
  const std::lock_guard lock(opened.mutex);
  opened.contexts.erase(native);
}

}  // namespace RDMAXX_NAMESPACE::detail
