#pragma once

// command_line: from the arguments to the exit code.

namespace rdmaxx::tool {

/// Never throws: failures go to standard error as "rdmaxx: …".
[[nodiscard]] int run(int argc, const char* const* argv) noexcept;

}  // namespace rdmaxx::tool
