// A failure must not be overlooked.
// expect: nodiscard

#include <rdmaxx/rdmaxx.hpp>

using namespace rdmaxx;

void post(const queue_pair& qp) {
#ifdef RDMAXX_COMPILE_OK
  qp.post(send_wr{}).value();
#else
  qp.post(send_wr{});
#endif
}
