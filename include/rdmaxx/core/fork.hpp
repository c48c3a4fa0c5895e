#pragma once

// fork: objects created before a fork(2) belong to the parent.
//
// Verbs objects are queues that a process shares with its device, so a child that used or destroyed
// them would use or destroy its parent's. Each object remembers the generation of the process that
// created it; in a child, calls that wait, create something or belong to a stream fail with ENODEV
// and say why, and destructors silently leave the parent's objects alone. Posting and polling do
// not check: a soft device refuses them, and a real one must not be used.
//
// Threads: any.

#include <cstdint>
#include <string_view>

#include <rdmaxx/core/result.hpp>

namespace RDMAXX_NAMESPACE::detail {

/// How many forks separate the process that loaded this library from the current one.
[[nodiscard]] std::uint32_t fork_generation() noexcept;

/// ENODEV, because the object was created before a fork.
[[nodiscard]] error forked_error(std::string_view operation);

/// An error if that generation is not the current one.
[[nodiscard]] inline result<void> check_generation(std::uint32_t made, std::string_view operation) {
  if (made == fork_generation()) [[likely]]
    return {};
  return forked_error(operation);
}

}  // namespace RDMAXX_NAMESPACE::detail
