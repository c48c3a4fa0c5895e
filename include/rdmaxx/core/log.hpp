#pragma once

// log: where the library reports what it cannot return to a caller, such as a destructor's failure.
//
// Everything else is an error value; nothing on the data path logs. The sink is replaceable: the
// default one writes warnings and errors to standard error, and
// RDMAXX_LOG=debug|info|warning|error|off in the environment changes its threshold.
//
// Threads: log() and set_log_sink() may be called from any thread. A sink may be called from
// several threads at once, and may still be running in another thread when set_log_sink() returns.

#include <cstdint>
#include <functional>
#include <string_view>

#include <rdmaxx/core/variant.hpp>

namespace RDMAXX_NAMESPACE {

enum class log_level : std::uint8_t { debug, info, warning, error, off };
[[nodiscard]] std::string_view describe(log_level level) noexcept;

using log_sink = std::function<void(log_level, std::string_view message)>;

/// Sends messages to `sink` from now on; an empty one restores the default.
void set_log_sink(log_sink sink);

/// Messages below this level are neither formatted nor passed to the sink.
void set_log_threshold(log_level level) noexcept;
[[nodiscard]] log_level log_threshold() noexcept;

/// Never throws: a sink that does is ignored.
void log(log_level level, std::string_view message) noexcept;

}  // namespace RDMAXX_NAMESPACE
