// A sequence number is no queue pair number.
// expect: no match for .operator=. .*qpn.*psn

#include <rdmaxx/rdmaxx.hpp>

using namespace rdmaxx;

void fill_in(qp_endpoint& endpoint, psn first, qpn own) {
#ifdef RDMAXX_COMPILE_OK
  endpoint.number = own;
  endpoint.first_psn = first;
#else
  endpoint.number = first;
  endpoint.first_psn = own;
#endif
}
