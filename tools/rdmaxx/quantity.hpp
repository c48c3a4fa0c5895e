#pragma once

// quantity: numbers with their units, as people read them.

#include <chrono>
#include <cstddef>
#include <string>

namespace rdmaxx::tool {

/// "12.3 µs"
[[nodiscard]] std::string microseconds_text(std::chrono::nanoseconds time);
/// "4 KiB", "1 MiB", "8 B": the largest unit that divides the number.
[[nodiscard]] std::string bytes_text(std::size_t bytes);
/// "123.4 MiB/s"
[[nodiscard]] std::string rate_text(double bytes_per_second);

[[nodiscard]] double in_microseconds(std::chrono::nanoseconds time) noexcept;
[[nodiscard]] double in_mebibytes(double bytes) noexcept;

}  // namespace rdmaxx::tool
