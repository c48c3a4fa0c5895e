#pragma once

// fork_hint: what to do about an object that belongs to the parent of a fork.

#include <string_view>

#include <rdmaxx/core/variant.hpp>

namespace RDMAXX_NAMESPACE::detail {

inline constexpr std::string_view fork_hint =
    "objects created before fork() belong to the parent: open the device and connect again in the "
    "child, or call exec or _exit there";

}  // namespace RDMAXX_NAMESPACE::detail
