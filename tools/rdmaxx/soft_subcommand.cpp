#include <array>
#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <fmt/format.h>
#include <unistd.h>

#include "subcommand.hpp"

namespace rdmaxx::tool {

namespace {

constexpr const char* library_name = "libsoftverbs.so.0";

/// The one that was built or installed with this program.
std::optional<std::filesystem::path> find_library() {
  const auto here = std::filesystem::read_symlink("/proc/self/exe").parent_path();
  for (const auto* const folder : {"../lib", "../" RDMAXX_LIBRARY_FOLDER}) {
    auto candidate = (here / folder).lexically_normal() / library_name;
    if (std::filesystem::exists(candidate)) return candidate;
  }
  return {};
}

/// Ahead of what the user already preloads.
void preload(const std::string& library) {
  // NOLINTBEGIN(concurrency-mt-unsafe): this program has one thread
  const char* const present = std::getenv("LD_PRELOAD");
  const bool alone = present == nullptr || *present == '\0';
  ::setenv("LD_PRELOAD", (alone ? library : fmt::format("{}:{}", library, present)).c_str(), 1);
  // NOLINTEND(concurrency-mt-unsafe)
}

/// Returns only if the program cannot be started.
exit_code become(std::vector<std::string> words) {
  std::vector<char*> arguments;
  arguments.reserve(words.size() + 1);
  for (auto& word : words) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  ::execvp(arguments.front(), arguments.data());
  const int error = errno;
  fmt::print(stderr, "rdmaxx: {}: {}\n", words.front(), std::generic_category().message(error));
  return error == ENOENT ? exit_code::program_not_found : exit_code::program_not_started;
}

exit_code run_on_soft_devices(const std::vector<std::string>& words) {
  const auto library = find_library();
  if (!library) {
    fmt::print(stderr, "rdmaxx: {} was not installed with this program\n", library_name);
    return exit_code::failure;
  }
  if (library->native().find_first_of(" :") != std::string::npos) {
    fmt::print(stderr, "rdmaxx: {}: a library cannot be preloaded from a path with ' ' or ':'\n",
               library->native());
    return exit_code::failure;
  }
  preload(library->native());
  return become(words);
}

}  // namespace

std::optional<exit_code> run_soft_program(std::span<const char* const> command_line) {
  if (command_line.size() < 3 || std::string_view(command_line[1]) != "soft") return {};
  auto words = command_line.subspan(2);
  if (std::string_view(words.front()) == "--") {
    words = words.subspan(1);
  } else if (std::string_view(words.front()).starts_with('-')) {
    return {};  // an option
  }
  if (words.empty()) return {};
  return run_on_soft_devices({words.begin(), words.end()});
}

subcommand soft_subcommand(CLI::App& parser) {
  const auto words = std::make_shared<std::vector<std::string>>();
  auto* const word = parser.add_subcommand(
      "soft", "Run a program with soft RDMA devices: no hardware, no kernel module");
  word->add_option("PROGRAM", *words, "The program and its arguments, best after --")
      ->type_name("")
      ->required();
  word->footer(
      "  rdmaxx soft -- ibv_devinfo -v\n\n"
      "Sets LD_PRELOAD to libsoftverbs and becomes the program, whose exit code it is then; 127 if "
      "there is\n"
      "no such program. Environment variables SOFTVERBS_… configure the devices.");
  return {word, [words] { return run_on_soft_devices(*words); }};
}

}  // namespace rdmaxx::tool
