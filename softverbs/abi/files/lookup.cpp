#include <abi/files/lookup.hpp>

#include <array>
#include <atomic>

#include <files/soft_devices.hpp>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace softverbs::abi::file_access {
namespace {

using softverbs::files::node_kind;
using softverbs::files::tree;

constexpr std::string_view memory_file_prefix = "softverbs:";

thread_local int kernel_files_only_depth = 0;
constinit std::atomic<bool> given_out = false;

void put_text(int memory_file, std::string_view text) {
  while (!text.empty()) {
    const auto written = ::write(memory_file, text.data(), text.size());
    if (written <= 0) return;
    text.remove_prefix(static_cast<std::size_t>(written));
  }
  ::lseek(memory_file, 0, SEEK_SET);
}

}  // namespace

kernel_files_only::kernel_files_only() noexcept { ++kernel_files_only_depth; }
kernel_files_only::~kernel_files_only() { --kernel_files_only_depth; }

lookup look_up(std::string_view path, bool follow) {
  using enum tree::place::kind;
  lookup result;
  result.kernel_path = path;
  if (kernel_files_only_depth > 0) return result;
  const auto devices = softverbs::files::devices_for(path);
  if (devices.empty()) return result;
  tree names(devices);
  auto place = names.find(path, follow);
  switch (place.found) {
    case here:
      if (place.what->shared && place.what->kind == node_kind::attribute &&
          c_library::access::call(place.path.c_str(), F_OK) == 0) {
        return result;
      }
      result.file = {.tree = std::move(names), .path = std::move(place.path), .what = place.what};
      break;
    case elsewhere:
      result.kernel_path = std::move(place.path);
      if (path.ends_with('/')) result.kernel_path += '/';
      break;
    case missing:
      result.error = ENOENT;
      break;
    case not_a_directory:
      result.error = ENOTDIR;
      break;
    case too_many_links:
      result.error = ELOOP;
      break;
  }
  return result;
}

bool descriptors_exist() noexcept { return given_out.load(std::memory_order_relaxed); }

std::string path_of_descriptor(int fd) {
  if (!descriptors_exist()) return {};
  struct stat found{};
  if (::syscall(SYS_newfstatat, fd, "", &found, AT_EMPTY_PATH) != 0 || !S_ISREG(found.st_mode) ||
      found.st_nlink != 0) {
    return {};
  }
  std::array<char, 512> memory{};
  const auto name = fmt::format("/proc/self/fd/{}", fd);
  const auto bytes = c_library::readlink::call(name.c_str(), memory.data(), memory.size());
  if (bytes <= 0) return {};
  // /memfd:softverbs:/sys/class/infiniband (deleted)
  std::string_view text(memory.data(), static_cast<std::size_t>(bytes));
  constexpr std::string_view before = "/memfd:";
  constexpr std::string_view after = " (deleted)";
  if (!text.starts_with(before) || !text.ends_with(after)) return {};
  text.remove_prefix(before.size());
  text.remove_suffix(after.size());
  if (!text.starts_with(memory_file_prefix)) return {};
  text.remove_prefix(memory_file_prefix.size());
  return std::string(text);
}

descriptor open_file(const tree_file& file, int flags) {
  const auto kind = file.what->kind;
  const auto refused = [](int code) { return descriptor(fails<int>(code)); };
  if ((flags & O_CREAT) != 0 && (flags & O_EXCL) != 0) return refused(EEXIST);
  if ((flags & O_DIRECTORY) != 0 && kind != node_kind::directory) return refused(ENOTDIR);
  if (kind == node_kind::symlink) return refused(ELOOP);  // O_NOFOLLOW: else it was followed
  // Nothing answers behind the node: programs reach soft devices through the library.
  if (kind == node_kind::character_device && (flags & O_PATH) == 0) return refused(ENXIO);
  if ((flags & O_PATH) == 0 && (flags & O_ACCMODE) != O_RDONLY)
    return refused(kind == node_kind::directory ? EISDIR : EACCES);

  const auto name = fmt::format("{}{}", memory_file_prefix, file.path);
  const unsigned close_on_exec = (flags & O_CLOEXEC) != 0 ? MFD_CLOEXEC : 0U;
  descriptor fd(::memfd_create(name.c_str(), MFD_ALLOW_SEALING | close_on_exec));
  if (!fd) return fd;
  if (kind == node_kind::attribute) put_text(fd.get(), file.what->text);
  ::fchmod(fd.get(), kind == node_kind::directory ? 0555 : 0444);
  ::fcntl(fd.get(), F_ADD_SEALS, F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE);
  given_out.store(true, std::memory_order_relaxed);
  return fd;
}

namespace {

[[gnu::constructor]] void look_up_next_definitions() {
  using namespace c_library;
  look_up_all<open, openat, fopen, opendir, fdopendir, readdir, readdir_r, closedir, rewinddir,
              seekdir, telldir, dirfd, scandir, scandirat, c_library::stat, lstat, fstat, fstatat,
              c_library::statx, access, faccessat, euidaccess, readlink, readlinkat, realpath,
              chdir, fchdir, getcwd, getxattr, lgetxattr, listxattr, llistxattr>();
}

}  // namespace
}  // namespace softverbs::abi::file_access
