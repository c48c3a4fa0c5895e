#pragma once

// scarce_memory: while it lives, one allocation of this thread fails: the one after `spared`
// others.
//
// The library's operator new is that of the program, which is replaced in scarce_memory.cpp.

#include <cstddef>

namespace softverbs::device_tests {

class scarce_memory {
 public:
  explicit scarce_memory(std::size_t spared) noexcept;
  scarce_memory(const scarce_memory&) = delete;
  scarce_memory& operator=(const scarce_memory&) = delete;
  ~scarce_memory();

  /// Whether an allocation has failed.
  [[nodiscard]] bool was_felt() const noexcept;
};

}  // namespace softverbs::device_tests
