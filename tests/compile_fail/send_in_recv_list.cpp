// A send does not belong in a list of receives.
// expect: no matching function for call to .*push_unchecked

#include <rdmaxx/rdmaxx.hpp>

using namespace rdmaxx;

void prepare(send_list& sends, recv_list& receives) {
  static_cast<void>(receives);
#ifdef RDMAXX_COMPILE_OK
  sends.push(send_wr{.id = wr_id{1}});
#else
  receives.push(send_wr{.id = wr_id{1}});
#endif
}
