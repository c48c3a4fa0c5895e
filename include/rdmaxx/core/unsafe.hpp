#pragma once

// unsafe: the tag by which a caller takes responsibility for what the type system cannot guarantee.

#include <rdmaxx/core/variant.hpp>

namespace RDMAXX_NAMESPACE {

struct unsafe_t {
  explicit constexpr unsafe_t(int) noexcept {}
};

/// Passed to functions whose safety depends on what a peer or other code does; each documents what
/// the caller must guarantee.
inline constexpr unsafe_t unsafe{0};

}  // namespace RDMAXX_NAMESPACE
