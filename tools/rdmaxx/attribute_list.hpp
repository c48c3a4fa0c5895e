#pragma once

// attribute_list: the attributes of devices and ports by name, in the order in which they are
// shown.

#include <nlohmann/json.hpp>

#include <rdmaxx/rdmaxx.hpp>

namespace rdmaxx::tool {

[[nodiscard]] nlohmann::ordered_json attribute_list(const device_attributes& device);
[[nodiscard]] nlohmann::ordered_json attribute_list(const port_attributes& port);

}  // namespace rdmaxx::tool
