#include <rdmaxx/stream/send_pool.hpp>

#include <fmt/format.h>

namespace RDMAXX_NAMESPACE::stream_protocol {

send_pool::send_pool(std::span<std::byte> memory, std::uint32_t buffer_bytes, use who)
    : memory_(memory), buffer_bytes_(buffer_bytes), use_(who) {
  free_.reserve(size());
  for (auto buffer = static_cast<std::uint32_t>(size()); buffer != 0; --buffer)
    free_.push_back(buffer - 1);
}

std::string describe(const send_pool& pool) {
  return fmt::format("{} buffers of {} bytes, {} available", pool.size(), pool.buffer_bytes(),
                     pool.available());
}

}  // namespace RDMAXX_NAMESPACE::stream_protocol
