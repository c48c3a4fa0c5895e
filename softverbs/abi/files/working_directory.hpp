// A working directory that is one of the tree's: shells change into /sys/class/infiniband and look
// around. The kernel's working directory is the nearest one above that really exists, and a program
// that is started from there begins in that, not among files that it was not meant to see.
//
// One for the process, as the kernel's. Any thread may call any function.
#pragma once

#include <atomic>
#include <string>

namespace softverbs::abi::file_access::working_directory {

namespace detail {
inline constinit std::atomic<bool> is_in_tree = false;
}

/// Nearly always false: then relative paths are the kernel's.
[[nodiscard]] inline bool is_in_tree() noexcept {
  return detail::is_in_tree.load(std::memory_order_acquire);
}

/// Empty if it is not in the tree.
[[nodiscard]] std::string path();
/// Empty: it is the kernel's again.
void set(std::string path);

}  // namespace softverbs::abi::file_access::working_directory
