#include "cm/peer_error.hpp"

#include <string>
#include <system_error>

namespace RDMAXX_NAMESPACE::detail {

error as_peer_error(const error& failure) {
  if (failure.category() == error_category::peer && failure != std::errc::timed_out) return failure;
  const bool is_late = failure == std::errc::timed_out;
  return error(
      {.operation = std::string(failure.operation()),
       .code = is_late ? std::make_error_code(std::errc::connection_aborted) : failure.code(),
       .category = error_category::peer,
       .problem =
           is_late
               ? "the peer requested a connection, was accepted, and did not complete it in time"
               : std::string(failure.problem()),
       .hint =
           "the peer's program or the path to it has failed; other peers can still be accepted"});
}

}  // namespace RDMAXX_NAMESPACE::detail
