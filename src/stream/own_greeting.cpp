#include "stream/own_greeting.hpp"

#include <random>

namespace RDMAXX_NAMESPACE::detail {

stream_protocol::greeting own_greeting(const stream_options& options) {
  static thread_local std::minstd_rand random(std::random_device{}());
  return {.window = options.window, .first_sequence = static_cast<std::uint32_t>(random())};
}

}  // namespace RDMAXX_NAMESPACE::detail
