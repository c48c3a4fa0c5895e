// An event is acknowledged once, so it has one owner.
// expect: use of deleted function .*cq_event

#include <utility>

#include <rdmaxx/rdmaxx.hpp>

using namespace rdmaxx;

cq_event take(cq_event& event) {
#ifdef RDMAXX_COMPILE_OK
  return std::move(event);
#else
  return event;
#endif
}
