// What the device may write is not what it may send: a scatter_element is no gather_element.
// expect: could not convert|no matching

#include <rdmaxx/rdmaxx.hpp>

using namespace rdmaxx;

result<void> send(const queue_pair& qp, const memory_region& region) {
#ifdef RDMAXX_COMPILE_OK
  return qp.post(send_wr{.from = region.gather()});
#else
  return qp.post(send_wr{.from = region.scatter()});
#endif
}
