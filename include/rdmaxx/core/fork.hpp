#pragma once

// fork: what was made before a fork(2) belongs to the parent.
//
// Verbs objects are queues that a process shares with its device, so a child that used or destroyed
// them would do so to its parent's. Each object remembers the generation of the process that made
// it; in a child, calls that wait, make something or belong to a stream fail with ENODEV and say
// why, and destructors leave the parent's objects alone, without a word. Posting and polling ask
// nothing: there a soft device refuses, and a real one must not be used.
//
// Threads: any.

#include <cstdint>
#include <string_view>

#include <rdmaxx/core/result.hpp>

namespace RDMAXX_NAMESPACE::detail {

/// How many forks lie between the process that loaded this library and the present one.
[[nodiscard]] std::uint32_t fork_generation() noexcept;

/// ENODEV, because the object was made before a fork.
[[nodiscard]] error forked_error(std::string_view operation);

/// A failure if that generation is not the present one.
[[nodiscard]] inline result<void> check_generation(std::uint32_t made, std::string_view operation) {
  if (made == fork_generation()) [[likely]]
    return {};
  return forked_error(operation);
}

}  // namespace RDMAXX_NAMESPACE::detail
