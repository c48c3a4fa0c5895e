// A memory region has one owner.
// expect: use of deleted function .*memory_region

#include <utility>

#include <rdmaxx/rdmaxx.hpp>

using namespace rdmaxx;

memory_region take(memory_region& region) {
#ifdef RDMAXX_COMPILE_OK
  return std::move(region);
#else
  return region;
#endif
}
