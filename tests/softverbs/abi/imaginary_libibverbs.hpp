// A libibverbs with imaginary devices, which notes how it is used.
#pragma once

#include <string>
#include <vector>

namespace imaginary {

struct state {
  int device_count = 2;
  int error = 0;      ///< with which ibv_get_device_list() fails
  int lists_out = 0;  ///< handed out and not yet given back
  std::vector<std::string> calls;
};

[[nodiscard]] state& now();

}  // namespace imaginary
