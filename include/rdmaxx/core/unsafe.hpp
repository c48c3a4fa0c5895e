#pragma once

// unsafe: the tag that a caller writes to take over a promise that the type system cannot keep.

namespace rdmaxx::inline v0 {

struct unsafe_t {
  explicit constexpr unsafe_t(int) noexcept {}
};

/// Passed to functions whose safety depends on what a peer or other code does; each says what it
/// asks for.
inline constexpr unsafe_t unsafe{0};

}  // namespace rdmaxx::inline v0
