#include "quantity.hpp"

#include <array>
#include <string_view>

#include <fmt/format.h>

namespace rdmaxx::tool {

std::string microseconds_text(std::chrono::nanoseconds time) {
  return fmt::format("{:.1f} µs", in_microseconds(time));
}

std::string bytes_text(std::size_t bytes) {
  constexpr std::array<std::string_view, 4> units{"B", "KiB", "MiB", "GiB"};
  std::size_t unit = 0;
  for (; bytes != 0 && bytes % 1024 == 0 && unit + 1 < units.size(); ++unit) bytes /= 1024;
  return fmt::format("{} {}", bytes, units.at(unit));
}

std::string rate_text(double bytes_per_second) {
  return fmt::format("{:.1f} MiB/s", in_mebibytes(bytes_per_second));
}

double in_microseconds(std::chrono::nanoseconds time) noexcept {
  return std::chrono::duration<double, std::micro>(time).count();
}

double in_mebibytes(double bytes) noexcept { return bytes / (1024.0 * 1024.0); }

}  // namespace rdmaxx::tool
