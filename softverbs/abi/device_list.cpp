#include <abi/device_list.hpp>

#include <algorithm>
#include <cstdlib>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <utility>

#include <abi/dispatch.hpp>
#include <abi/files/lookup.hpp>
#include <base/settings.hpp>

namespace softverbs::abi {

namespace {

thread_local int real_devices_only_depth = 0;

/// The lists that programs hold, each with the real one whose devices are in it.
class merged_lists {
 public:
  void add(ibv_device** merged, ibv_device** real) {
    const std::lock_guard lock(mutex_);
    real_of_.emplace(merged, real);
  }

  /// False if the list is none of ours.
  [[nodiscard]] bool take(ibv_device** merged, ibv_device**& real) {
    const std::lock_guard lock(mutex_);
    const auto found = real_of_.find(merged);
    if (found == real_of_.end()) return false;
    real = found->second;
    real_of_.erase(found);
    return true;
  }

 private:
  std::mutex mutex_;
  std::unordered_map<ibv_device**, ibv_device**> real_of_;
};

// Never destroyed: destructors of static objects may still give lists back.
merged_lists& lists() {
  static auto* const only = new merged_lists;
  return *only;
}

struct free_merged_list {
  void operator()(ibv_device** list) const noexcept { std::free(static_cast<void*>(list)); }
};

/// Real devices first: a program that takes the first device keeps its hardware.
ibv_device** merged_device_list(int* count) {
  real_device_list real;
  const auto soft = verbs::list_devices();
  const int size = real.size() + static_cast<int>(soft.size());
  const auto places = static_cast<std::size_t>(size) + 1;
  std::unique_ptr<ibv_device*, free_merged_list> merged(
      static_cast<ibv_device**>(std::calloc(places, sizeof(ibv_device*))));
  if (merged == nullptr) return nullptr;
  std::ranges::copy(soft, std::copy_n(real.data(), real.size(), merged.get()));
  lists().add(merged.get(), real.data());
  real.release();
  if (count != nullptr) *count = size;
  return merged.release();
}

}  // namespace

real_device_list::real_device_list() {
  if (!settings::get().real_devices) return;
  const file_access::kernel_files_only guard;
  list_ = RDMAXX_REAL(ibv_get_device_list)(&size_);
  if (list_ == nullptr) size_ = 0;
}

real_device_list::~real_device_list() {
  if (list_ != nullptr) RDMAXX_REAL(ibv_free_device_list)(list_);
}

ibv_device** real_device_list::release() noexcept { return std::exchange(list_, nullptr); }

real_devices_only::real_devices_only() noexcept { ++real_devices_only_depth; }
real_devices_only::~real_devices_only() { --real_devices_only_depth; }

}  // namespace softverbs::abi

using namespace softverbs;
using namespace softverbs::abi;

ibv_device** ibv_get_device_list(int* count) try {
  if (real_devices_only_depth > 0) {
    const file_access::kernel_files_only guard;
    return RDMAXX_REAL(ibv_get_device_list)(count);
  }
  const int error_before = errno;
  auto* const list = merged_device_list(count);
  errno = list == nullptr ? ENOMEM : error_before;  // that there is no real device is no failure
  return list;
} catch (...) {
  return fails_with(errno_of_exception());
}

void ibv_free_device_list(ibv_device** list) {
  ibv_device** real = list;
  if (lists().take(list, real)) std::free(static_cast<void*>(list));
  if (real != nullptr) RDMAXX_REAL(ibv_free_device_list)(real);
}
