#include <engine/private_descriptor.hpp>

#include <engine/station.hpp>
#include <unistd.h>

namespace softverbs::engine {

private_descriptor::private_descriptor(int fd) : fd_(fd) {
  if (fd_ >= 0) close_in_children(fd_);
}

private_descriptor::~private_descriptor() {
  if (fd_ < 0) return;
  forget_descriptor(fd_);
  ::close(fd_);
}

int private_descriptor::release() {
  if (fd_ >= 0) forget_descriptor(fd_);
  return std::exchange(fd_, -1);
}

}  // namespace softverbs::engine
