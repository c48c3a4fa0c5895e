// A local key is no remote key.
// expect: no match for .operator=. .*rkey.*lkey

#include <rdmaxx/rdmaxx.hpp>

using namespace rdmaxx;

void reveal(remote_address& place, const memory_region& region) {
#ifdef RDMAXX_COMPILE_OK
  place.key = region.rkey();
#else
  place.key = region.lkey();
#endif
}
