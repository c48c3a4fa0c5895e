// A const buffer cannot be the target of a receive.
// expect: no matching function for call to .*scatter

#include <cstddef>
#include <span>

#include <rdmaxx/rdmaxx.hpp>

using namespace rdmaxx;

result<void> receive_into(const queue_pair& qp, const memory_region& region,
                          std::span<const std::byte> constant, std::span<std::byte> writable) {
  static_cast<void>(constant);
  static_cast<void>(writable);
#ifdef RDMAXX_COMPILE_OK
  return qp.post(recv_wr{.into = region.scatter(writable)});
#else
  return qp.post(recv_wr{.into = region.scatter(constant)});
#endif
}
