// Takes back a step of something that did not succeed as a whole: by an early return as well as by
// an exception.
#pragma once

#include <utility>

namespace softverbs {

template <class Function>
class undo {
 public:
  explicit undo(Function function) : function_(std::move(function)) {}
  undo(const undo&) = delete;
  undo& operator=(const undo&) = delete;
  ~undo() {
    if (!kept_) function_();
  }

  /// The whole has succeeded.
  void keep() noexcept { kept_ = true; }

 private:
  Function function_;
  bool kept_ = false;
};

}  // namespace softverbs
