// What became of a work request (11.6.2).
#pragma once

#include <cstdint>

namespace softverbs::transport {

/// The numbers are those of ibv_wc_status, in which front ends and fault plans speak.
enum class status : std::uint8_t {
  success = 0,
  local_length_error = 1,
  local_operation_error = 2,
  local_protection_error = 4,
  flushed = 5,
  window_bind_error = 6,
  bad_response = 7,
  local_access_error = 8,
  remote_invalid_request = 9,
  remote_access_error = 10,
  remote_operation_error = 11,
  retries_exceeded = 12,
  rnr_retries_exceeded = 13
};

}  // namespace softverbs::transport
