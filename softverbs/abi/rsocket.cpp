// rsockets: librdmacm's own code makes them, and looks behind each identifier for what its own
// rdma_create_id puts there. On an identifier of the soft connection manager it would read foreign
// memory, so there are none; with no rsocket made, no program comes to its other functions.

#include <abi/rdmacm.hpp>
#include <abi/real.hpp>
#include <base/c_function.hpp>
#include <base/log.hpp>

using namespace softverbs;

extern "C" int rsocket(int domain, int type, int protocol);

int rsocket(int domain, int type, int protocol) {
  return without_exceptions<failure_as::minus_one>([&] {
    if (!abi::uses_soft_cm())
      return abi::real_function<&::rsocket, -1>("rsocket")(domain, type, protocol);
    log(log_level::error,
        "rsocket() fails: rsockets need librdmacm's own connection manager and a device of the "
        "kernel; SOFTVERBS_CM=real uses them");
    errno = EOPNOTSUPP;
    return -1;
  });
}
