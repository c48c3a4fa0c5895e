// Whoever lets peers touch memory says so.
// expect: no matching function for call to .*register_shared

#include <cstddef>
#include <span>

#include <rdmaxx/rdmaxx.hpp>

using namespace rdmaxx;

result<memory_region> share(const protection_domain& pd, std::span<std::byte> buffer) {
#ifdef RDMAXX_COMPILE_OK
  return pd.register_shared(unsafe, buffer, access::remote_read);
#else
  return pd.register_shared(buffer, access::remote_read);
#endif
}
