#pragma once

// known_devices: what the devices that every run of the tests meets must have. A test that needs
// something else is skipped; one that needs a capability listed here fails, so that a device that
// loses a capability does not lose its tests as well.

#include <set>
#include <string_view>

#include "capability.hpp"

namespace rdmaxx::device_tests {

/// Nothing for devices that are not known. They are known by the beginning of their names.
[[nodiscard]] const std::set<capability>& required_of(std::string_view device);

}  // namespace rdmaxx::device_tests
