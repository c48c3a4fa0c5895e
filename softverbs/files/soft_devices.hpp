// The soft devices of this process, described for the tree of file names.
#pragma once

#include <string_view>
#include <vector>

#include <files/tree.hpp>

namespace softverbs::files {

/// Those that the path may be about: one, or all if it names none. What costs most, the GIDs and
/// the counters, is there only for the one.
[[nodiscard]] std::vector<device> devices_for(std::string_view path);

}  // namespace softverbs::files
