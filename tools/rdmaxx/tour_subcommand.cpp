#include <cstdio>
#include <memory>
#include <string>

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "quantity.hpp"
#include "subcommand.hpp"
#include "table.hpp"
#include "tour.hpp"

namespace rdmaxx::tool {

namespace {

/// Prints each result as it arrives.
class text_guest final : public tour_guest {
 public:
  void sees_devices(const std::vector<device_report>& devices) override {
    if (!devices.empty()) print_text(devices, detail_level::brief);
    std::fflush(stdout);
  }

  void sees_choice(const device_choice& choice) override {
    fmt::print("\nPicked {}\n", choice.describe());
    std::fflush(stdout);
  }

  void sees_end(std::string_view reason) override {
    fmt::print("The tour ends here: {}.\n", reason);
  }

  void sees_connection(const connection& here, const connection& there) override {
    fmt::print("Connected two queue pairs of it, {} and {}\n", here.qp().number(),
               there.qp().number());
    fmt::print("\nPing: SEND of 8 bytes there and back\n");
    std::fflush(stdout);
  }

  void sees_ping(const ping_summary& summary) override {
    table times({{"ROUND TRIPS", alignment::right},
                 {"MIN", alignment::right},
                 {"MEDIAN", alignment::right},
                 {"P99", alignment::right}});
    times.add({std::to_string(summary.round_trips), microseconds_text(summary.minimum),
               microseconds_text(summary.median), microseconds_text(summary.p99)});
    times.print(stdout);
    fmt::print("\nBandwidth: every byte checked\n");
    transfers_.print_heading(stdout);
    std::fflush(stdout);
  }

  void sees_transfer(const bandwidth_wanted& wanted, const bandwidth_measured& measured) override {
    transfers_.print(stdout,
                     {std::string(describe(wanted.kind)), bytes_text(wanted.message_bytes),
                      std::to_string(measured.messages), rate_text(measured.bytes_per_second())});
    std::fflush(stdout);
  }

 private:
  table transfers_{{{"OPERATION", alignment::left, 10},
                    {"MESSAGE", alignment::right},
                    {"COUNT", alignment::right, 9},
                    {"BANDWIDTH", alignment::right, 13}}};
};

/// Collects the results.
class json_guest final : public tour_guest {
 public:
  void sees_devices(const std::vector<device_report>& devices) override {
    seen_["devices"] = to_json(devices, detail_level::brief);
  }

  void sees_choice(const device_choice& choice) override {
    seen_["picked"] = {
        {"device", choice.context().device_name()}, {"port", choice.port()},
        {"gid_index", choice.gid_index()},          {"gid", describe(choice.entry().address)},
        {"description", choice.describe()},
    };
  }

  void sees_end(std::string_view reason) override { seen_["ended"] = reason; }

  void sees_connection(const connection&, const connection&) override {}

  void sees_ping(const ping_summary& summary) override {
    seen_["ping"] = {
        {"message_bytes", sizeof(std::uint64_t)},
        {"round_trips", summary.round_trips},
        {"min_us", in_microseconds(summary.minimum)},
        {"median_us", in_microseconds(summary.median)},
        {"p99_us", in_microseconds(summary.p99)},
    };
  }

  void sees_transfer(const bandwidth_wanted& wanted, const bandwidth_measured& measured) override {
    seen_["bandwidth"].push_back({
        {"operation", describe(wanted.kind)},
        {"message_bytes", wanted.message_bytes},
        {"messages", measured.messages},
        {"mib_per_second", in_mebibytes(measured.bytes_per_second())},
    });
  }

  void print() const { fmt::print("{}\n", seen_.dump(2)); }

 private:
  nlohmann::ordered_json seen_;
};

struct tour_options {
  std::string device{};
  bool json = false;
};

exit_code take_tour(const tour_options& options) {
  if (options.json) {
    json_guest guest;
    tour(options.device, guest);
    guest.print();
  } else {
    text_guest guest;
    tour(options.device, guest);
  }
  return exit_code::success;
}

}  // namespace

subcommand tour_subcommand(CLI::App& parser) {
  const auto options = std::make_shared<tour_options>();
  auto* const word = parser.add_subcommand(
      "tour", "List the devices, then ping and transfer between two queue pairs of one of them");
  word->add_option("--device", options->device, "The device to use instead of the best one")
      ->type_name("NAME");
  word->add_flag("--json", options->json, "Print JSON, at the end");
  word->footer(
      "It takes a few seconds. Both queue pairs are in this process: ping times and bandwidths are "
      "those of\n"
      "the device talking to itself. iWARP devices are listed only: they cannot be connected by "
      "hand.");
  return {word, [options] { return take_tour(*options); }};
}

}  // namespace rdmaxx::tool
