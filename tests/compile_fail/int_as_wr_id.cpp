// A number becomes a request's id only when it is said to be one.
// expect: no match for .operator=. .*wr_id_tag

#include <rdmaxx/rdmaxx.hpp>

using namespace rdmaxx;

void name(send_wr& request) {
#ifdef RDMAXX_COMPILE_OK
  request.id = wr_id{7};
#else
  request.id = 7;
#endif
}
