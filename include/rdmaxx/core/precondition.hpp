#pragma once

// precondition: what a caller must guarantee, checked where the build asks for it.
//
// An empty handle (default-constructed or moved from) refers to no C object, and using it is a
// mistake of the program, not a failure to handle. Where checks are on, such a call ends the
// program with one line that names it:
//
//   rdmaxx: queue_pair::post() was called on an empty handle, which is default-constructed or moved
//   from [hint: use the object that it was moved to]
//
// Checks are on where NDEBUG is not defined, as for assert(), and wherever RDMAXX_HARDENED is 1
// (CMake: -DRDMAXX_HARDENED=ON, which also applies to targets that link the library). A release
// build without it pays no instruction. As with assert(), the setting is that of the translation
// unit: inline functions follow the program's setting, all others that of the library's build.
//
// Threads: any.

#include <source_location>
#include <string>
#include <string_view>

#include <rdmaxx/core/variant.hpp>

#ifndef RDMAXX_HARDENED
#ifdef NDEBUG
#define RDMAXX_HARDENED 0
#else
#define RDMAXX_HARDENED 1
#endif
#endif

namespace RDMAXX_NAMESPACE::detail {

using call_site = std::source_location;

/// "queue_pair::post" of "rdmaxx::v0::result<void> rdmaxx::v0::queue_pair::post(const …) const".
[[nodiscard]] std::string short_name_of_call(std::string_view signature);

/// Writes one line to standard error and aborts.
[[noreturn, gnu::cold]] void precondition_failed(const char* problem, const char* hint,
                                                 const call_site& call) noexcept;

/// Aborts the program unless `held`; does nothing where checks are off.
inline void expect([[maybe_unused]] bool held, [[maybe_unused]] const char* problem,
                   [[maybe_unused]] const char* hint,
                   [[maybe_unused]] const call_site& call = call_site::current()) noexcept {
#if RDMAXX_HARDENED
  if (!held) [[unlikely]]
    precondition_failed(problem, hint, call);
#endif
}

inline constexpr const char* empty_handle =
    "was called on an empty handle, which is default-constructed or moved from";
inline constexpr const char* use_the_other = "use the object that it was moved to, or make one";

}  // namespace RDMAXX_NAMESPACE::detail
