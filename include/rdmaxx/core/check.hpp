#pragma once

// check: the one place where C results become result<T>.
//
// 0 is success. The C libraries report failure in four ways: a positive errno (libibverbs), -1 with
// errno set (librdmacm, read(2)), a negated errno below -1 (siw's post), or a null pointer with
// errno set.

#include <string_view>

#include <rdmaxx/core/result.hpp>

namespace RDMAXX_NAMESPACE {

/// The errno that a C result stands for; 0 for success. Reads errno for -1, so call it first.
[[nodiscard]] int errno_of(int rc) noexcept;

[[nodiscard]] result<void> check(int rc, std::string_view operation);

/// A null pointer is a failure described by errno.
template <class T>
[[nodiscard]] result<T*> check(T* pointer, std::string_view operation) {
  if (pointer != nullptr) [[likely]]
    return pointer;
  return errno_error(operation, errno_of(-1));
}

}  // namespace RDMAXX_NAMESPACE
