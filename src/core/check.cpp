#include <rdmaxx/core/check.hpp>

#include <cerrno>
#include <limits>

namespace RDMAXX_NAMESPACE {

int errno_of(int rc) noexcept {
  if (rc >= 0) return rc;
  if (rc < -1) return rc != std::numeric_limits<int>::min() ? -rc : EIO;
  // A library that forgets to set errno must not turn its failure into success.
  return errno != 0 ? errno : EIO;
}

result<void> check(int rc, std::string_view operation) {
  const int errno_value = errno_of(rc);
  if (errno_value == 0) return {};
  return errno_error(operation, errno_value);
}

}  // namespace RDMAXX_NAMESPACE
