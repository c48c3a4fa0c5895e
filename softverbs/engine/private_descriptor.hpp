// A descriptor of this process alone: closed at the end of its owner, and in children of a fork,
// where it would keep the other end of a connection believing that this process lives.
#pragma once

#include <utility>

namespace softverbs::engine {

class private_descriptor {
 public:
  private_descriptor() = default;
  /// Takes it over; a negative one is none.
  explicit private_descriptor(int fd);
  private_descriptor(private_descriptor&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  private_descriptor& operator=(private_descriptor&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  ~private_descriptor();

  [[nodiscard]] int get() const noexcept { return fd_; }
  [[nodiscard]] explicit operator bool() const noexcept { return fd_ >= 0; }
  /// No longer its own: the caller closes it, here and in children.
  [[nodiscard]] int release();
  void reset() { private_descriptor().swap(*this); }
  void swap(private_descriptor& other) noexcept { std::swap(fd_, other.fd_); }

 private:
  int fd_ = -1;
};

}  // namespace softverbs::engine
