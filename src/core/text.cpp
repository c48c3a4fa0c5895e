#include <rdmaxx/core/text.hpp>

#include <fmt/format.h>

namespace RDMAXX_NAMESPACE {

std::string hexadecimal(std::uint64_t value) { return fmt::format("{:#x}", value); }

}  // namespace RDMAXX_NAMESPACE
