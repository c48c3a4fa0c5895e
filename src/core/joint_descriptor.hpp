#pragma once

// joint_descriptor: one descriptor that is readable when one of several others is, or when it is
// told to be.
//
// Lifetime: the others outlive it, or are removed before. Threads: one at a time may call it;
// waiting for fd() is anybody's.

#include <initializer_list>
#include <memory>

#include <rdmaxx/core/result.hpp>

namespace RDMAXX_NAMESPACE::detail {

class joint_descriptor {
 public:
  [[nodiscard]] static result<std::unique_ptr<joint_descriptor>> create(
      std::initializer_list<int> others);
  joint_descriptor(const joint_descriptor&) = delete;
  joint_descriptor& operator=(const joint_descriptor&) = delete;
  ~joint_descriptor();

  [[nodiscard]] int fd() const noexcept { return all_; }
  /// Readable, whatever the others are; or as they are.
  void set_readable(bool readable) noexcept;
  [[nodiscard]] result<void> add(int other) const;
  void remove(int other) const noexcept;

 private:
  joint_descriptor() = default;
  [[nodiscard]] result<void> open(std::initializer_list<int> others);

  int all_ = -1;   // an epoll
  int told_ = -1;  // an eventfd
  bool is_told_ = false;
};

}  // namespace RDMAXX_NAMESPACE::detail
