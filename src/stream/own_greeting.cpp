#include "stream/own_greeting.hpp"

#include <random>

#include "stream/stream_endpoint.hpp"

namespace RDMAXX_NAMESPACE::detail {

stream_protocol::greeting own_greeting(const stream_options& options) {
  static thread_local std::minstd_rand random(std::random_device{}());
  return {.window = window_of(options), .first_sequence = static_cast<std::uint32_t>(random())};
}

}  // namespace RDMAXX_NAMESPACE::detail
