#include <rdmaxx/core/fork.hpp>

#include <atomic>
#include <cerrno>

#include <pthread.h>

#include "core/fork_hint.hpp"

namespace RDMAXX_NAMESPACE::detail {

namespace {

constinit std::atomic<std::uint32_t> generation{0};

// Registered before main, because a fork may happen before the first object exists.
[[maybe_unused]] const int registered =
    ::pthread_atfork(nullptr, nullptr, [] { generation.fetch_add(1, std::memory_order_relaxed); });

}  // namespace

std::uint32_t fork_generation() noexcept { return generation.load(std::memory_order_relaxed); }

error forked_error(std::string_view operation) {
  return errno_error(operation, ENODEV, "the object was created before a fork",
                     std::string(fork_hint));
}

}  // namespace RDMAXX_NAMESPACE::detail
