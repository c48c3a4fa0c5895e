// A descriptor of this process alone: closed at the end of its owner, and in children of a fork,
// where it would keep a port bound and a connection open that end with this process.
//
// Not synchronised. Its owner must not hold the lock of the fork registry, which is a leaf.
#pragma once

#include <utility>

#include <base/descriptor.hpp>

namespace softverbs::engine {

class private_descriptor {
 public:
  private_descriptor() = default;
  explicit private_descriptor(descriptor fd);
  /// Takes it over; a negative one is none.
  explicit private_descriptor(int fd) : private_descriptor(descriptor(fd)) {}
  private_descriptor(private_descriptor&& other) noexcept = default;
  private_descriptor& operator=(private_descriptor&& other) noexcept {
    private_descriptor(std::move(other)).swap(*this);
    return *this;
  }
  private_descriptor(const private_descriptor&) = delete;
  private_descriptor& operator=(const private_descriptor&) = delete;
  ~private_descriptor() { static_cast<void>(release()); }

  [[nodiscard]] int get() const noexcept { return fd_.get(); }
  [[nodiscard]] explicit operator bool() const noexcept { return static_cast<bool>(fd_); }
  /// No longer this process's alone: the new owner closes it, here and in children.
  [[nodiscard]] descriptor release();
  void reset() { private_descriptor().swap(*this); }
  void swap(private_descriptor& other) noexcept { fd_.swap(other.fd_); }

 private:
  descriptor fd_;
};

}  // namespace softverbs::engine
