#include <engine/private_descriptor.hpp>

#include <engine/fork_registry.hpp>

namespace softverbs::engine {

private_descriptor::private_descriptor(descriptor fd) : fd_(std::move(fd)) {
  if (fd_) close_in_children(fd_.get());
}

descriptor private_descriptor::release() {
  if (fd_) forget_descriptor(fd_.get());
  return std::move(fd_);
}

}  // namespace softverbs::engine
