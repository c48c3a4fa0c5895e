#pragma once

// intended_leak: tells the leak checker that what is allocated while this object lives may be lost.
//
// The library leaks on purpose what the device refuses to give back.

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/lsan_interface.h>
#endif

namespace rdmaxx::device_tests {

class [[maybe_unused]] intended_leak {
 public:
#if defined(__SANITIZE_ADDRESS__)
  intended_leak() { __lsan_disable(); }
  ~intended_leak() { __lsan_enable(); }
#else
  intended_leak() = default;
#endif
  intended_leak(const intended_leak&) = delete;
  intended_leak& operator=(const intended_leak&) = delete;
};

}  // namespace rdmaxx::device_tests
