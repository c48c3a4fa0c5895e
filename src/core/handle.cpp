#include <rdmaxx/core/handle.hpp>

#include <fmt/format.h>

#include <rdmaxx/core/check.hpp>
#include <rdmaxx/core/log.hpp>

namespace RDMAXX_NAMESPACE {

std::string_view describe(ownership kind) noexcept {
  switch (kind) {
    case ownership::owned:
      return "owned";
    case ownership::borrowed:
      return "borrowed";
  }
  return "unknown";
}

namespace detail {

bool resource::try_retain() noexcept {
  auto count = references_.load(std::memory_order_relaxed);
  while (count != 0) {
    if (references_.compare_exchange_weak(count, count + 1, std::memory_order_relaxed)) return true;
  }
  return false;
}

void resource::end() noexcept {
  if (is_made_before_fork()) return;
  const int rc = destroy();
  if (rc == 0) {
    delete this;
    return;
  }
  const int errno_value = errno_of(rc);
  // Building the description may run out of memory; the object must be leaked even then.
  try {
    log(log_level::error,
        fmt::format("{} failed: {} [errno {}]; it and what it refers to are leaked, because the "
                    "device may still use them",
                    destroy_call(), std::generic_category().message(errno_value), errno_value));
  } catch (...) {
    log(log_level::error, "destroying a verbs object failed; it is leaked");
  }
}

}  // namespace detail
}  // namespace RDMAXX_NAMESPACE
