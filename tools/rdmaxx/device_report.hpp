#pragma once

// device_report: everything that a device reports about itself.

#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include <rdmaxx/rdmaxx.hpp>

namespace rdmaxx::tool {

struct port_report {
  port_attributes attributes{};
  std::vector<gid_entry> gids{};
};

struct device_report {
  std::string name{};
  transport_type transport = transport_type::unknown;
  rdmaxx::node_type node_type = rdmaxx::node_type::unknown;
  rdmaxx::guid guid{};
  device_attributes attributes{};
  std::vector<port_report> ports{};
  /// Why the device could not be queried; attributes and ports are then empty.
  std::optional<error> failure{};
};

enum class detail_level : bool { brief, all };

[[nodiscard]] std::vector<device_report> report_devices();
/// Only the device of this name; throws the error of open_device() if there is none.
[[nodiscard]] device_report report_device(const std::string& name);

/// Tables of devices and of GIDs; with detail_level::all also a list of attributes for each device
/// and port.
void print_text(const std::vector<device_report>& devices, detail_level details);
[[nodiscard]] nlohmann::ordered_json to_json(const std::vector<device_report>& devices,
                                             detail_level details);

}  // namespace rdmaxx::tool
