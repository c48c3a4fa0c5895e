// A queue pair has one owner.
// expect: use of deleted function .*queue_pair

#include <utility>

#include <rdmaxx/rdmaxx.hpp>

using namespace rdmaxx;

queue_pair take(queue_pair& qp) {
#ifdef RDMAXX_COMPILE_OK
  return std::move(qp);
#else
  return qp;
#endif
}
