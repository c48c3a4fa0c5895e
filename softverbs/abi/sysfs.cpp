// What programs read below a device's ibdev_path: soft devices have no files there.

#include <algorithm>
#include <array>
#include <cstring>
#include <optional>
#include <string>
#include <string_view>

#include <abi/dispatch.hpp>
#include <endian.h>
#include <fmt/format.h>

using namespace softverbs;
using namespace softverbs::abi;

namespace {

/// Which soft device's file is it, and which of its files.
struct soft_file {
  ibv_device* device;
  std::string name;  ///< relative to ibdev_path
};

std::optional<soft_file> find_soft_file(std::string_view folder, std::string_view file) {
  const auto path = fmt::format("{}/{}", folder, file);
  std::optional<soft_file> found;
  for (auto* const device : verbs::list_devices()) {
    const std::string_view root(&device->ibdev_path[0]);
    if (!root.empty() && path.starts_with(root) && path.size() > root.size() &&
        path[root.size()] == '/') {
      found = {device, path.substr(root.size() + 1)};
    }
  }
  return found;
}

std::string guid_text(__be64 guid) {
  const auto value = be64toh(guid);
  return fmt::format("{:04x}:{:04x}:{:04x}:{:04x}", value >> 48, (value >> 32) & 0xffff,
                     (value >> 16) & 0xffff, value & 0xffff);
}

std::optional<std::string> content_of(const soft_file& file) {
  const std::string_view name = file.name;
  if (name == "node_type") return "1: CA";
  if (name == "node_desc" || name == "board_id" || name == "hca_type") return "softverbs";
  if (name == "fw_ver") return RDMAXX_VERSION;
  if (name == "hw_rev") return "1";
  if (name == "node_guid" || name == "sys_image_guid") {
    return guid_text(c_function<verbs::device_guid>(file.device));
  }
  if (name == "ports/1/link_layer") return "Ethernet";
  if (name.starts_with("ports/1/gid_attrs/types/")) return "RoCE v2";
  return {};
}

}  // namespace

const char* ibv_get_sysfs_path(void) {
  const auto real = RDMAXX_REAL(ibv_get_sysfs_path);
  return real ? real() : "/sys";
}

int ibv_read_sysfs_file(const char* folder, const char* file, char* buffer, std::size_t bytes) try {
  const auto soft = find_soft_file(folder, file);
  if (!soft) return RDMAXX_REAL(ibv_read_sysfs_file)(folder, file, buffer, bytes);
  const auto content = content_of(*soft);
  if (!content || bytes == 0) {
    errno = ENOENT;
    return -1;
  }
  const auto size = content->copy(buffer, bytes - 1);
  buffer[size] = '\0';
  return static_cast<int>(size);
} catch (...) {
  errno = errno_of_exception();
  return -1;
}
