#include "device_report.hpp"

#include <algorithm>
#include <cerrno>
#include <iterator>

#include <fmt/format.h>

namespace rdmaxx::tool {

namespace {

result<void> fill(device_report& report, const device& source) {
  RDMAXX_TRY(const auto context, source.open());
  RDMAXX_TRY(report.attributes, context.query_device());
  RDMAXX_TRY(const auto ports, context.query_ports());
  RDMAXX_TRY(const auto gids, context.query_gid_table());
  for (const auto& port : ports) {
    port_report row{.attributes = port};
    std::ranges::copy_if(gids, std::back_inserter(row.gids),
                         [&](const gid_entry& gid) { return gid.port == port.number; });
    report.ports.push_back(std::move(row));
  }
  return {};
}

device_report report_on(const device& source) {
  device_report report{
      .name = std::string(source.name()),
      .transport = source.transport(),
      .node_type = source.node_type(),
      .guid = source.guid(),
  };
  if (const auto outcome = fill(report, source); !outcome) report.failure = outcome.error();
  return report;
}

}  // namespace

std::vector<device_report> report_devices() {
  std::vector<device_report> reports;
  for (const auto& source : devices().value()) reports.push_back(report_on(source));
  return reports;
}

device_report report_device(const std::string& name) {
  for (const auto& source : devices().value()) {
    if (source.name() == name) return report_on(source);
  }
  const auto opened = open_device(name);
  throw exception(
      opened ? errno_error("devices", EAGAIN, fmt::format("{} has just appeared: try again", name))
             : opened.error());
}

}  // namespace rdmaxx::tool
