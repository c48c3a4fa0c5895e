#pragma once

// check: the one place where C results become result<T>.
//
// The C libraries report failure in four dialects: 0 is success; a positive value is an errno
// (libibverbs); -1 means "see errno" (librdmacm, read(2)); below -1 is a negated errno (siw's
// post). Functions that return pointers set errno.

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
