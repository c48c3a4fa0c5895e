#include "core/joint_descriptor.hpp"

#include <cerrno>

#include <sys/epoll.h>
#include <sys/eventfd.h>

namespace RDMAXX_NAMESPACE::detail {

result<std::unique_ptr<joint_descriptor>> joint_descriptor::create(
    std::initializer_list<int> others) {
  std::unique_ptr<joint_descriptor> made(new joint_descriptor);
  RDMAXX_TRY(made->open(others));
  return made;
}

result<void> joint_descriptor::open(std::initializer_list<int> others) {
  all_ = descriptor(::epoll_create1(EPOLL_CLOEXEC));
  if (!all_) return errno_error("epoll_create1", errno);
  told_ = descriptor(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!told_) return errno_error("eventfd", errno);
  RDMAXX_TRY(add(told_.get()));
  for (const int other : others) RDMAXX_TRY(add(other));
  return {};
}

result<void> joint_descriptor::add(int other) const {
  epoll_event interest{.events = EPOLLIN, .data = {.fd = other}};
  if (::epoll_ctl(all_.get(), EPOLL_CTL_ADD, other, &interest) != 0)
    return errno_error("epoll_ctl", errno);
  return {};
}

void joint_descriptor::remove(int other) const noexcept {
  ::epoll_ctl(all_.get(), EPOLL_CTL_DEL, other, nullptr);
}

void joint_descriptor::set_readable(bool readable) noexcept {
  if (readable == is_told_) return;
  is_told_ = readable;
  eventfd_t count = 0;
  if (readable) {
    ::eventfd_write(told_.get(), 1);
  } else {
    ::eventfd_read(told_.get(), &count);
  }
}

}  // namespace RDMAXX_NAMESPACE::detail
