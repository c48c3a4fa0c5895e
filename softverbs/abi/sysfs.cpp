// What libibverbs reads for others below a device's ibdev_path.

#include <string_view>

#include <abi/dispatch.hpp>
#include <abi/files/lookup.hpp>
#include <fmt/format.h>

using namespace softverbs;
using namespace softverbs::abi;

const char* ibv_get_sysfs_path(void) {
  const auto real = RDMAXX_REAL(ibv_get_sysfs_path);
  return real ? real() : "/sys";
}

int ibv_read_sysfs_file(const char* folder, const char* file, char* buffer, std::size_t bytes) try {
  const auto path = fmt::format("{}/{}", folder, file);
  const auto found = file_access::may_be_ours(path.c_str()) ? file_access::look_up(path, true)
                                                            : file_access::lookup{};
  if (!found.file && found.error == 0)
    return RDMAXX_REAL(ibv_read_sysfs_file)(folder, file, buffer, bytes);
  if (!found.file || found.file->what->kind != files::node_kind::attribute || bytes == 0) {
    errno = ENOENT;
    return -1;
  }
  std::string_view text = found.file->what->text;
  text.remove_suffix(1);  // the line end
  const auto size = text.copy(buffer, bytes - 1);
  buffer[size] = '\0';
  return static_cast<int>(size);
} catch (...) {
  errno = errno_of_exception();
  return -1;
}
