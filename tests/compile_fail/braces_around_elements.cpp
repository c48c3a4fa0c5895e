// Elements side by side need an array with a name.
// expect: could not convert|no matching

#include <array>
#include <vector>

#include <rdmaxx/rdmaxx.hpp>

using namespace rdmaxx;

result<void> send(const queue_pair& qp, const memory_region& region) {
#ifdef RDMAXX_COMPILE_OK
  const std::array parts{region.gather(), region.gather()};
  const send_wr request{.from = parts};
#else
  const send_wr request{.from = {region.gather(), region.gather()}};
#endif
  return qp.post(request);
}
