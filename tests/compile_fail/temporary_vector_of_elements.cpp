// A vector without a name is gone before the request is posted.
// expect: use of deleted function

#include <array>
#include <vector>

#include <rdmaxx/rdmaxx.hpp>

using namespace rdmaxx;

result<void> send(const queue_pair& qp, const memory_region& region) {
#ifdef RDMAXX_COMPILE_OK
  const std::vector<gather_element> parts(2, region.gather());
  const send_wr request{.from = parts};
#else
  const send_wr request{.from = std::vector<gather_element>(2, region.gather())};
#endif
  return qp.post(request);
}
