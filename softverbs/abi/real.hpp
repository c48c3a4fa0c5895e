// The functions of the real libibverbs, for objects that are its own, and of the real librdmacm.
//
// They may be absent: then a call sets errno to ENOSYS and returns null, or ENOSYS (librdmacm: -1),
// or -ENOSYS if what is returned is a size. Nothing is locked during a call, because the real
// library calls its own exported functions through the dynamic linker and so comes back to ours.
#pragma once

#include <atomic>
#include <cerrno>
#include <type_traits>

#include <sys/types.h>

namespace softverbs::abi {

/// The next definition of the name after ours, or that of libibverbs.so.1 or librdmacm.so.1, loaded
/// for it; null if there is none. A version is needed only for names that have no default one.
[[nodiscard]] void* find_real(const char* name, const char* version = nullptr) noexcept;

/// `Function` is ours, and tells the type; `absent` is what an int is if there is no other.
template <auto Function, int absent = ENOSYS>
class real_function;

template <class Result, class... Args, Result (*Function)(Args...), int absent>
class real_function<Function, absent> {
 public:
  explicit real_function(const char* name) noexcept {
    if (known_.load(std::memory_order_acquire) != nullptr) return;
    // Two threads may both look for it, and find the same.
    known_.store(reinterpret_cast<Result (*)(Args...)>(find_real(name)), std::memory_order_release);
  }

  [[nodiscard]] explicit operator bool() const noexcept { return target() != nullptr; }

  Result operator()(Args... args) const {
    if (const auto function = target(); function != nullptr) return function(args...);
    errno = ENOSYS;
    if constexpr (std::is_pointer_v<Result>) {
      return nullptr;
    } else if constexpr (std::is_same_v<Result, ssize_t>) {
      return -ENOSYS;
    } else if constexpr (!std::is_void_v<Result>) {
      int value = absent;  // not a constant: an enumeration may lack it
      return static_cast<Result>(value);
    }
  }

 private:
  static auto target() noexcept { return known_.load(std::memory_order_acquire); }

  static inline std::atomic<Result (*)(Args...)> known_{nullptr};
};

}  // namespace softverbs::abi

/// A macro, so that the name is written once.
#define RDMAXX_REAL(name) (::softverbs::abi::real_function<&::name>(#name))
#define RDMAXX_REAL_CM(name) (::softverbs::abi::real_function<&::name, -1>(#name))
