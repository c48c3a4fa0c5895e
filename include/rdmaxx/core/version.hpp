#pragma once

// version: which rdmaxx this is. CMakeLists.txt reads it from here.

#include <string_view>

namespace rdmaxx::inline v0 {

inline constexpr std::string_view version = "0.1.0";

}  // namespace rdmaxx::inline v0
