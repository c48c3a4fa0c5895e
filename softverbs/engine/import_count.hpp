// Who still holds an object that ibv_import_* has given out a second time. The object is of no use
// once it has been destroyed, but stays in memory for those who have still to unimport it.
//
// Any thread may call any function.
#pragma once

#include <mutex>

namespace softverbs::engine {

class import_count {
 public:
  void add() {
    const std::lock_guard lock(mutex_);
    ++imports_;
  }
  /// True if nobody is left: the caller frees the object.
  [[nodiscard]] bool remove() {
    const std::lock_guard lock(mutex_);
    if (imports_ != 0) --imports_;
    return imports_ == 0 && destroyed_;
  }
  /// The same, by whoever has destroyed the object.
  [[nodiscard]] bool object_is_destroyed() {
    const std::lock_guard lock(mutex_);
    destroyed_ = true;
    return imports_ == 0;
  }
  [[nodiscard]] bool is_destroyed() {
    const std::lock_guard lock(mutex_);
    return destroyed_;
  }

 private:
  std::mutex mutex_;
  unsigned imports_ = 0;
  bool destroyed_ = false;
};

}  // namespace softverbs::engine
