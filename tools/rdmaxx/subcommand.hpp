#pragma once

// subcommand: one word after `rdmaxx`, and what it does.
//
// A subcommand lives in a file of its own, which adds the word with its options to the parser and
// keeps the values that the options set. A new one is a file, a declaration here, and a line in
// command_line.cpp.

#include <functional>
#include <optional>
#include <span>

#include <CLI/App.hpp>

namespace rdmaxx::tool {

enum class exit_code : int {
  success = 0,
  failure = 1,
  usage = 2,
  // The exit code of shells, for a subcommand that runs another program.
  program_not_started = 126,
  program_not_found = 127,
};

struct subcommand {
  const CLI::App* word;  ///< owned by the parser; tells whether it was given
  std::function<exit_code()> run;
};

/// rdmaxx devices: what RDMA devices there are.
[[nodiscard]] subcommand devices_subcommand(CLI::App& parser);
/// rdmaxx soft: another program, with soft RDMA devices.
[[nodiscard]] subcommand soft_subcommand(CLI::App& parser);
/// The same for a command line that names a program, whose arguments must not be interpreted: the
/// parser would treat "[a]" as a list. Nothing if it is another command line.
[[nodiscard]] std::optional<exit_code> run_soft_program(std::span<const char* const> command_line);
/// rdmaxx tour: the devices, then a short ping and bandwidth test on one of them.
[[nodiscard]] subcommand tour_subcommand(CLI::App& parser);

}  // namespace rdmaxx::tool
