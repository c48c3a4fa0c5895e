#pragma once

// unsafe: the tag that a caller writes to take over a promise that the type system cannot keep.

#include <rdmaxx/core/variant.hpp>

namespace RDMAXX_NAMESPACE {

struct unsafe_t {
  explicit constexpr unsafe_t(int) noexcept {}
};

/// Passed to functions whose safety depends on what a peer or other code does; each says what it
/// asks for.
inline constexpr unsafe_t unsafe{0};

}  // namespace RDMAXX_NAMESPACE
