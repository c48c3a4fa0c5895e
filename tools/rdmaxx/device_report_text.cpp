#include <cstdio>
#include <string>

#include <fmt/format.h>

#include "attribute_list.hpp"
#include "device_report.hpp"
#include "table.hpp"

namespace rdmaxx::tool {

namespace {

std::string or_dash(const std::string& text) { return text.empty() ? "-" : text; }

void print_ports(const std::vector<device_report>& devices) {
  table ports({{"DEVICE"},
               {"TRANSPORT"},
               {"NODE TYPE"},
               {"GUID"},
               {"PORT", alignment::right},
               {"STATE"},
               {"LINK"},
               {"MTU", alignment::right},
               {"SPEED"}});
  for (const auto& device : devices) {
    const table::row who{device.name, std::string(describe(device.transport)),
                         std::string(describe(device.node_type)),
                         fmt::format("{:#018x}", device.guid.value())};
    if (device.ports.empty()) ports.add(who);
    for (const auto& [port, gids] : device.ports) {
      auto cells = who;
      cells.push_back(std::to_string(port.number));
      cells.emplace_back(describe(port.state));
      cells.emplace_back(describe(port.link_layer));
      cells.emplace_back(describe(port.active_mtu));
      cells.push_back(or_dash(port.link_speed()));
      ports.add(std::move(cells));
    }
  }
  ports.print(stdout);
}

void print_gids(const std::vector<device_report>& devices) {
  table gids({{"DEVICE"},
              {"PORT", alignment::right},
              {"GID", alignment::right},
              {"ADDRESS"},
              {"TYPE"},
              {"NETDEV"}});
  for (const auto& device : devices) {
    for (const auto& port : device.ports) {
      for (const auto& gid : port.gids) {
        gids.add({device.name, std::to_string(gid.port), std::to_string(gid.index),
                  describe(gid.address), std::string(describe(gid.type)), or_dash(gid.netdev)});
      }
    }
  }
  gids.print(stdout);
}

std::string text_of(const nlohmann::ordered_json& value) {
  if (value.is_string()) return or_dash(value.get<std::string>());
  if (value.is_boolean()) return value.get<bool>() ? "yes" : "no";
  if (!value.is_structured()) return value.dump();
  std::string text;
  for (const auto& [name, part] : value.items()) {
    if (!text.empty()) text += value.is_object() ? ", " : " ";
    if (value.is_object()) text += name + " ";
    text += text_of(part);
  }
  return or_dash(text);
}

void print_attributes(const std::string& title, const nlohmann::ordered_json& list) {
  table attributes({{title}, {}});
  for (const auto& [name, value] : list.items()) attributes.add({name, text_of(value)});
  fmt::print("\n");
  attributes.print(stdout);
}

}  // namespace

void print_text(const std::vector<device_report>& devices, detail_level details) {
  print_ports(devices);
  fmt::print("\n");
  print_gids(devices);
  if (details == detail_level::brief) return;
  for (const auto& device : devices) {
    if (device.failure) continue;
    print_attributes(device.name, attribute_list(device.attributes));
    for (const auto& port : device.ports) {
      print_attributes(fmt::format("{} port {}", device.name, port.attributes.number),
                       attribute_list(port.attributes));
    }
  }
}

}  // namespace rdmaxx::tool
