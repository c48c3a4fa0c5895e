// The protection domains of a context by their handles.
//
// Any thread may call any function.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <mutex>

#include <engine/import_count.hpp>
#include <infiniband/verbs.h>

namespace softverbs::engine {

struct protection_domain : ibv_pd {
  std::atomic<unsigned> users = 0;
  import_count imports;
};

class domain_directory {
 public:
  /// Gives it a handle.
  void add(protection_domain& domain) {
    const std::lock_guard lock(mutex_);
    const auto number = last_ + 1;
    by_handle_.emplace(number, &domain);
    domain.handle = last_ = number;
  }
  void remove(const protection_domain& domain) {
    const std::lock_guard lock(mutex_);
    by_handle_.erase(domain.handle);
  }
  /// Null if there is none.
  [[nodiscard]] protection_domain* find(std::uint32_t handle) const {
    const std::lock_guard lock(mutex_);
    const auto found = by_handle_.find(handle);
    return found != by_handle_.end() ? found->second : nullptr;
  }

 private:
  mutable std::mutex mutex_;
  std::map<std::uint32_t, protection_domain*> by_handle_;
  std::uint32_t last_ = 0;
};

}  // namespace softverbs::engine
