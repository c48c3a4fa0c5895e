#include <rdmaxx/core/text.hpp>

#include <fmt/format.h>

namespace rdmaxx::inline v0 {

std::string hexadecimal(std::uint64_t value) { return fmt::format("{:#x}", value); }

}  // namespace rdmaxx::inline v0
