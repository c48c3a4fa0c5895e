#pragma once

#include <string>
#include <string_view>

/// The path of a file in tests/data/roce, by its name without `.pcap`. Its source file alone knows
/// the folder: an object that does is compiled anew in every clone.
[[nodiscard]] std::string recording(std::string_view name);
