// Where C++ ends: no exception leaves through a C function.
//
// An exported function, or one that the inline verbs of <infiniband/verbs.h> reach by a pointer,
// fails instead, in its own convention: with the errno of a std::system_error (EAGAIN, if there was
// no thread to be had), else with ENOMEM, because nothing but a lack of memory is left to throw.
#pragma once

#include <cerrno>
#include <cstdint>
#include <type_traits>

#include <sys/types.h>

namespace softverbs {

/// How a function of type int tells failures. A pointer is null and errno set; a size is the
/// negated errno.
enum class failure_as : std::uint8_t {
  errno_value,    ///< the errno itself: most of libibverbs
  negated_errno,  ///< ibv_poll_cq
  minus_one,      ///< -1, and errno is set: librdmacm, and what libibverbs reads from descriptors
};

/// In a handler: the errno that the exception stands for.
[[nodiscard]] int errno_of_exception() noexcept;

template <class Result>
[[nodiscard]] Result failed_with(int error, failure_as how) noexcept {
  if constexpr (std::is_pointer_v<Result>) {
    errno = error;
    return nullptr;
  } else if constexpr (std::is_same_v<Result, ssize_t>) {
    return -error;
  } else if constexpr (std::is_unsigned_v<Result>) {
    errno = error;
    return 0;  // a port or a GUID
  } else {
    if (how == failure_as::errno_value) return static_cast<Result>(error);
    if (how == failure_as::negated_errno) return static_cast<Result>(-error);
    errno = error;
    return static_cast<Result>(-1);
  }
}

/// What `function` returns, or its failure if it throws.
template <failure_as how = failure_as::errno_value, class Function>
auto without_exceptions(Function&& function) noexcept -> decltype(function()) {
  using result = decltype(function());
  try {
    return function();
  } catch (...) {
    const int error = errno_of_exception();
    if constexpr (!std::is_void_v<result>) {
      return failed_with<result>(error, how);
    } else {
      errno = error;
    }
  }
}

template <auto function, failure_as how>
struct exception_border;

template <class Result, class... Arguments, Result (*function)(Arguments...), failure_as how>
struct exception_border<function, how> {
  static Result call(Arguments... arguments) noexcept {
    return without_exceptions<how>([&] { return function(arguments...); });
  }
};

/// A pointer to a function of the same signature that throws nothing.
template <auto function, failure_as how = failure_as::errno_value>
inline constexpr auto* c_function = &exception_border<function, how>::call;

}  // namespace softverbs
