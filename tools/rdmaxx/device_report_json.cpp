#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "attribute_list.hpp"
#include "device_report.hpp"

namespace rdmaxx::tool {

using nlohmann::ordered_json;

namespace {

ordered_json to_json(const gid_entry& gid) {
  return {
      {"index", gid.index},
      {"address", describe(gid.address)},
      {"type", describe(gid.type)},
      {"netdev", gid.netdev},
  };
}

ordered_json to_json(const port_report& port, detail_level details) {
  ordered_json json{
      {"number", port.attributes.number},
      {"state", describe(port.attributes.state)},
      {"link_layer", describe(port.attributes.link_layer)},
      {"active_mtu", bytes_of(port.attributes.active_mtu)},
      {"max_mtu", bytes_of(port.attributes.max_mtu)},
      {"speed", port.attributes.link_speed()},
  };
  if (details == detail_level::all) json["attributes"] = attribute_list(port.attributes);
  json["gids"] = ordered_json::array();
  for (const auto& gid : port.gids) json["gids"].push_back(to_json(gid));
  return json;
}

ordered_json to_json(const device_report& device, detail_level details) {
  ordered_json json{
      {"name", device.name},
      {"transport", describe(device.transport)},
      {"node_type", describe(device.node_type)},
      {"guid", fmt::format("{:#018x}", device.guid.value())},
  };
  if (device.failure) {
    json["error"] = device.failure->message();
    return json;
  }
  if (details == detail_level::all) json["attributes"] = attribute_list(device.attributes);
  json["ports"] = ordered_json::array();
  for (const auto& port : device.ports) json["ports"].push_back(to_json(port, details));
  return json;
}

}  // namespace

ordered_json to_json(const std::vector<device_report>& devices, detail_level details) {
  auto json = ordered_json::array();
  for (const auto& device : devices) json.push_back(to_json(device, details));
  return json;
}

}  // namespace rdmaxx::tool
