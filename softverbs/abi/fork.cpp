// fork(2): real devices write to physical pages, and a child's copy on write would take them away.
// Soft devices write to addresses of their own process, so nothing has to be done for them.

#include <abi/device_list.hpp>
#include <abi/dispatch.hpp>

using namespace softverbs;
using namespace softverbs::abi;

int ibv_fork_init(void) {
  return without_exceptions(
      [] { return real_device_list().size() > 0 ? RDMAXX_REAL(ibv_fork_init)() : 0; });
}

ibv_fork_status ibv_is_fork_initialized(void) try {
  return real_device_list().size() > 0 ? RDMAXX_REAL(ibv_is_fork_initialized)() : IBV_FORK_UNNEEDED;
} catch (...) {
  return IBV_FORK_DISABLED;
}

// Providers alone call these two.
int ibv_dontfork_range(void* base, std::size_t bytes) {
  const auto real = RDMAXX_REAL(ibv_dontfork_range);
  return real ? real(base, bytes) : 0;
}

int ibv_dofork_range(void* base, std::size_t bytes) {
  const auto real = RDMAXX_REAL(ibv_dofork_range);
  return real ? real(base, bytes) : 0;
}
