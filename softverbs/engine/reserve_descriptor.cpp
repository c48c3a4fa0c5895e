#include <engine/reserve_descriptor.hpp>

#include <cerrno>

#include <base/descriptor.hpp>
#include <base/log.hpp>
#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

namespace softverbs::engine {

void reserve_descriptor::provide() {
  if (!held_) held_ = private_descriptor(::open("/dev/null", O_RDONLY | O_CLOEXEC));
}

bool reserve_descriptor::refuse_one(int listener) {
  if (!held_) return false;
  held_.reset();
  descriptor newcomer(::accept4(listener, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
  const bool refused = newcomer || errno == EAGAIN;
  newcomer.reset();
  provide();
  log(log_level::debug, "no descriptors are left: a neighbour's connection is refused");
  return refused;
}

}  // namespace softverbs::engine
