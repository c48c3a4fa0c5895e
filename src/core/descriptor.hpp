#pragma once

// descriptor: a file descriptor with one owner, closed by the destructor.
//
// Closing preserves errno, so that a function may fail and report errno after its descriptor is
// closed.

#include <cerrno>
#include <utility>

#include <unistd.h>

#include <rdmaxx/core/variant.hpp>

namespace RDMAXX_NAMESPACE::detail {

class descriptor {
 public:
  descriptor() = default;
  /// Takes ownership; a negative number means none.
  explicit descriptor(int fd) noexcept : fd_(fd) {}
  descriptor(descriptor&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  descriptor& operator=(descriptor&& other) noexcept {
    descriptor(std::move(other)).swap(*this);
    return *this;
  }
  descriptor(const descriptor&) = delete;
  descriptor& operator=(const descriptor&) = delete;
  ~descriptor() {
    if (fd_ < 0) return;
    const int before = errno;
    ::close(fd_);
    errno = before;
  }

  [[nodiscard]] int get() const noexcept { return fd_; }
  [[nodiscard]] explicit operator bool() const noexcept { return fd_ >= 0; }
  void swap(descriptor& other) noexcept { std::swap(fd_, other.fd_); }

 private:
  int fd_ = -1;
};

}  // namespace RDMAXX_NAMESPACE::detail
