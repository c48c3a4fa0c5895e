#pragma once

// subcommand: one word after `rdmaxx`, and what it does.
//
// A subcommand lives in a file of its own, which adds the word with its options to the parser and
// keeps the values that the options set. A new one is a file, a declaration here, and a line in
// command_line.cpp.

#include <functional>

#include <CLI/App.hpp>

namespace rdmaxx::tool {

enum class exit_code : int { success = 0, failure = 1, usage = 2 };

struct subcommand {
  const CLI::App* word;  ///< owned by the parser; tells whether it was given
  std::function<exit_code()> run;
};

/// rdmaxx devices: what RDMA devices there are.
[[nodiscard]] subcommand devices_subcommand(CLI::App& parser);
/// rdmaxx tour: the devices, then a short ping and bandwidth test on one of them.
[[nodiscard]] subcommand tour_subcommand(CLI::App& parser);

}  // namespace rdmaxx::tool
