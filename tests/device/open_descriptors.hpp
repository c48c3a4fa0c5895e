#pragma once

// open_descriptors: the file descriptors of this process.

#include <filesystem>
#include <map>
#include <string>
#include <system_error>

namespace rdmaxx::device_tests {

/// Each open descriptor and what it refers to.
[[nodiscard]] inline std::map<int, std::string> open_descriptors() {
  std::map<int, std::string> open;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    std::error_code gone;
    const auto target = std::filesystem::read_symlink(entry.path(), gone);
    // The descriptor that the listing itself uses is closed when it ends.
    if (gone || target.string().starts_with("/proc/")) continue;
    open.emplace(std::stoi(entry.path().filename().string()), target.string());
  }
  return open;
}

}  // namespace rdmaxx::device_tests
