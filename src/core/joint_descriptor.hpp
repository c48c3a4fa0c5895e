#pragma once

// joint_descriptor: one descriptor that is readable when any of several others is, or when it is
// signalled.
//
// Lifetime: the others outlive it, or are removed first. Threads: one at a time may call it; any
// thread may wait for fd().

#include <initializer_list>
#include <memory>

#include <rdmaxx/core/result.hpp>

#include "core/descriptor.hpp"

namespace RDMAXX_NAMESPACE::detail {

class joint_descriptor {
 public:
  [[nodiscard]] static result<std::unique_ptr<joint_descriptor>> create(
      std::initializer_list<int> others);

  [[nodiscard]] int fd() const noexcept { return all_.get(); }
  /// Makes it readable whatever the others are, or ends that.
  void set_readable(bool readable) noexcept;
  [[nodiscard]] result<void> add(int other) const;
  void remove(int other) const noexcept;

 private:
  joint_descriptor() = default;
  [[nodiscard]] result<void> open(std::initializer_list<int> others);

  descriptor all_;   ///< an epoll
  descriptor told_;  ///< an eventfd
  bool is_told_ = false;
};

}  // namespace RDMAXX_NAMESPACE::detail
