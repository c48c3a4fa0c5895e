// The access of a region is not a set of send flags.
// expect: cannot convert .*send_flag.* to .*access_flags

#include <cstddef>
#include <span>

#include <rdmaxx/rdmaxx.hpp>

using namespace rdmaxx;

result<memory_region> share(const protection_domain& pd, std::span<std::byte> buffer) {
#ifdef RDMAXX_COMPILE_OK
  return pd.register_shared(unsafe, buffer, access::remote_read);
#else
  return pd.register_shared(unsafe, buffer, send_flag::signaled);
#endif
}
