#pragma once

// version: which rdmaxx this is. CMakeLists.txt reads it from here.

#include <string_view>

#include <rdmaxx/core/variant.hpp>

namespace RDMAXX_NAMESPACE {

inline constexpr std::string_view version = "0.1.0";

}  // namespace RDMAXX_NAMESPACE
