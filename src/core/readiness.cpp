#include <rdmaxx/core/readiness.hpp>

#include <algorithm>
#include <cerrno>

#include <fcntl.h>
#include <poll.h>

#include <rdmaxx/core/check.hpp>
#include <rdmaxx/core/clock.hpp>

namespace RDMAXX_NAMESPACE {

library_clock::time_point deadline_after(std::chrono::milliseconds timeout) noexcept {
  return deadline_after(library_clock::now(), timeout);
}

result<bool> wait_readable(int fd, std::optional<std::chrono::milliseconds> timeout) {
  return wait_readable_until(fd, detail::wait_end(timeout));
}

result<bool> wait_readable_until(int fd, library_clock::time_point deadline) {
  // poll() ignores negative descriptors: it would wait for nothing, perhaps forever.
  if (fd < 0) return errno_error("poll", EBADF);
  for (;;) {
    pollfd waiting{.fd = fd, .events = POLLIN, .revents = 0};
    const int ready = ::poll(&waiting, 1, library_clock::milliseconds_until(deadline));
    if (ready > 0) {
      if ((waiting.revents & POLLNVAL) != 0) return errno_error("poll", EBADF);
      return true;
    }
    if (ready < 0 && errno != EINTR) return errno_error("poll", errno);
    if (library_clock::now() >= deadline) return false;
  }
}

result<void> set_nonblocking(int fd) {
  const int status = ::fcntl(fd, F_GETFL);
  if (status < 0) return check(status, "fcntl(F_GETFL)");
  return check(::fcntl(fd, F_SETFL, status | O_NONBLOCK), "fcntl(F_SETFL, O_NONBLOCK)");
}

}  // namespace RDMAXX_NAMESPACE
