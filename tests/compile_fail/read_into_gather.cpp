// A gather_element may come from const memory, so nothing is read into it.
// expect: could not convert|no matching

#include <rdmaxx/rdmaxx.hpp>

using namespace rdmaxx;

result<void> read(const queue_pair& qp, const memory_region& region) {
#ifdef RDMAXX_COMPILE_OK
  return qp.post(read_wr{.into = region.scatter()});
#else
  return qp.post(read_wr{.into = region.gather()});
#endif
}
