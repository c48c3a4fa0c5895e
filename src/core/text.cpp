#include <rdmaxx/core/text.hpp>

#include <fmt/format.h>

namespace RDMAXX_NAMESPACE {

std::string hexadecimal(std::uint64_t value) { return fmt::format("{:#x}", value); }

std::string duration_text(std::chrono::milliseconds duration) {
  const auto count = duration.count();
  return count != 0 && count % 1000 == 0 ? fmt::format("{} s", count / 1000)
                                         : fmt::format("{} ms", count);
}

}  // namespace RDMAXX_NAMESPACE
