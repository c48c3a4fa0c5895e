// A receive does not belong in a list of sends.
// expect: no matching function for call to .*push_unchecked

#include <rdmaxx/rdmaxx.hpp>

using namespace rdmaxx;

void prepare(send_list& sends, recv_list& receives) {
  static_cast<void>(sends);
#ifdef RDMAXX_COMPILE_OK
  receives.push(recv_wr{.id = wr_id{1}});
#else
  sends.push(recv_wr{.id = wr_id{1}});
#endif
}
