#include <cstdio>
#include <memory>
#include <string>

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "device_report.hpp"
#include "subcommand.hpp"

namespace rdmaxx::tool {

namespace {

struct devices_options {
  std::string name{};
  bool json = false;
  bool verbose = false;
};

exit_code list_devices(const devices_options& options) {
  const auto details = options.verbose ? detail_level::all : detail_level::brief;
  const auto devices =
      options.name.empty() ? report_devices() : std::vector{report_device(options.name)};
  if (options.json) {
    fmt::print("{}\n", to_json(devices, details).dump(2));
  } else if (!devices.empty()) {
    print_text(devices, details);
  }
  std::fflush(stdout);
  if (devices.empty()) {
    if (const auto choice = pick_device(); !choice) {
      fmt::print(stderr, "rdmaxx: {}; {}\n", choice.error().problem(), choice.error().hint());
    }
    return exit_code::failure;
  }
  auto code = exit_code::success;
  for (const auto& device : devices) {
    if (!device.failure) continue;
    fmt::print(stderr, "rdmaxx: {}: {}\n", device.name, device.failure->message());
    code = exit_code::failure;
  }
  return code;
}

}  // namespace

subcommand devices_subcommand(CLI::App& parser) {
  const auto options = std::make_shared<devices_options>();
  auto* const word =
      parser.add_subcommand("devices", "List the RDMA devices with their ports and addresses");
  word->add_option("NAME", options->name, "Only this device");
  word->add_flag("--json", options->json, "Print JSON: a list of devices, empty if there are none");
  word->add_flag("--verbose", options->verbose, "Show all attributes of devices and ports");
  word->footer("Exit code 1 if there is no device, or one cannot be opened.");
  return {word, [options] { return list_devices(*options); }};
}

}  // namespace rdmaxx::tool
