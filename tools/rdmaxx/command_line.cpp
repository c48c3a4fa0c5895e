#include "command_line.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <exception>
#include <span>
#include <string_view>
#include <system_error>

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <fmt/format.h>

#include <rdmaxx/core/version.hpp>

#include "subcommand.hpp"

namespace rdmaxx::tool {

namespace {

void flush_output() {
  if (std::fflush(stdout) != 0) {
    throw std::system_error(errno, std::generic_category(), "writing the output");
  }
}

exit_code bad_usage(std::string_view problem) {
  fmt::print(stderr, "rdmaxx: {}\nSee `rdmaxx --help`.\n", problem);
  return exit_code::usage;
}

exit_code parse_and_run(int argc, const char* const* argv) {
  const std::span command_line(argv, static_cast<std::size_t>(argc));
  if (const auto code = run_soft_program(command_line)) return *code;
  CLI::App parser("Lists RDMA devices and measures how fast they are.", "rdmaxx");
  parser.set_version_flag("--version", fmt::format("rdmaxx {}", version));
  parser.require_subcommand(0, 1);  // its message for none hides that for a wrong one
  parser.footer(
      "Each subcommand has its own --help.\n\n"
      "Exit codes:\n"
      "  0  done\n"
      "  1  failed: no device, an unknown one, or an operation went wrong; standard error says "
      "which\n"
      "  2  bad usage");
  const std::array subcommands{devices_subcommand(parser), soft_subcommand(parser),
                               tour_subcommand(parser)};

  try {
    parser.parse(argc, argv);
  } catch (const CLI::ParseError& outcome) {
    if (outcome.get_exit_code() == static_cast<int>(CLI::ExitCodes::Success)) {
      parser.exit(outcome);  // --help and --version end up here, too
      flush_output();
      return exit_code::success;
    }
    return bad_usage(outcome.what());
  }
  const auto given =
      std::ranges::find_if(subcommands, [](const subcommand& one) { return one.word->parsed(); });
  if (given == subcommands.end()) return bad_usage("A subcommand is required");
  const auto code = given->run();
  flush_output();
  return code;
}

}  // namespace

int run(int argc, const char* const* argv) noexcept {
  try {
    return static_cast<int>(parse_and_run(argc, argv));
  } catch (const std::exception& failure) {
    std::fflush(stdout);  // prints earlier output before the error message
    std::fprintf(stderr, "rdmaxx: %s\n", failure.what());
    return static_cast<int>(exit_code::failure);
  }
}

}  // namespace rdmaxx::tool
