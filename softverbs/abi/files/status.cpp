// stat(2) and its kin, access(2), and what programs ask about extended attributes.

#include <cstring>
#include <ctime>

#include <abi/files/lookup.hpp>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <unistd.h>

using namespace softverbs::abi::file_access;
using softverbs::files::node;
using softverbs::files::node_kind;

namespace {

constexpr unsigned page_bytes = 4096;

mode_t mode_of(const node& what) {
  switch (what.kind) {
    case node_kind::directory:
      return S_IFDIR | 0755;
    case node_kind::attribute:
      return S_IFREG | 0444;
    case node_kind::symlink:
      return S_IFLNK | 0777;
    case node_kind::character_device:
      return S_IFCHR | 0666;
  }
  return 0;
}

off_t bytes_of(const node& what) {
  if (what.kind == node_kind::symlink) return static_cast<off_t>(what.text.size());
  return what.kind == node_kind::attribute ? page_bytes : 0;  // as sysfs says of all of them
}

/// The same for the same path, in all processes (FNV-1a).
ino_t number_of(std::string_view path) {
  std::uint64_t hash = 0xcbf2'9ce4'8422'2325;
  for (const char each : path) hash = (hash ^ static_cast<unsigned char>(each)) * 0x100'0000'01b3;
  return hash;
}

/// None that the kernel gives to a file system.
constexpr unsigned device_major = 0xffe;
constexpr unsigned device_minor = 0x73765;

timespec time_of_files() {
  static const timespec first_use = [] {
    timespec now{};
    ::clock_gettime(CLOCK_REALTIME, &now);
    return now;
  }();
  return first_use;
}

int tell(const tree_file& file, struct stat* out) {
  const auto& what = *file.what;
  *out = {};
  out->st_dev = makedev(device_major, device_minor);
  out->st_ino = number_of(file.path);
  out->st_mode = mode_of(what);
  out->st_nlink = what.kind == node_kind::directory ? 2 : 1;
  out->st_rdev =
      what.kind == node_kind::character_device ? makedev(what.major, what.minor) : dev_t{0};
  out->st_size = bytes_of(what);
  out->st_blksize = page_bytes;
  out->st_atim = out->st_mtim = out->st_ctim = time_of_files();
  return 0;
}

int tell(const tree_file& file, struct ::statx* out) {
  const auto& what = *file.what;
  *out = {};
  out->stx_mask = STATX_BASIC_STATS;
  out->stx_blksize = page_bytes;
  out->stx_nlink = what.kind == node_kind::directory ? 2 : 1;
  out->stx_mode = static_cast<std::uint16_t>(mode_of(what));
  out->stx_ino = number_of(file.path);
  out->stx_size = static_cast<std::uint64_t>(bytes_of(what));
  const auto time = time_of_files();
  out->stx_atime.tv_sec = out->stx_mtime.tv_sec = out->stx_ctime.tv_sec = time.tv_sec;
  out->stx_atime.tv_nsec = out->stx_mtime.tv_nsec = out->stx_ctime.tv_nsec =
      static_cast<std::uint32_t>(time.tv_nsec);
  out->stx_rdev_major = what.major;
  out->stx_rdev_minor = what.minor;
  out->stx_dev_major = device_major;
  out->stx_dev_minor = device_minor;
  return 0;
}

int kernels_stat(int directory, const char* path, struct stat* out, int flags) {
  return static_cast<int>(::syscall(SYS_newfstatat, directory, path, out, flags));
}

int stat_any(int directory, const char* path, struct stat* out, int flags) {
  return serve(
      directory, path, (flags & AT_SYMLINK_NOFOLLOW) == 0,
      [&](int at, const char* name) { return kernels_stat(at, name, out, flags); },
      [&](const tree_file& file) { return tell(file, out); });
}

/// After the kernel has answered for the descriptor.
void correct(int fd, struct stat* out) {
  if (!descriptors_exist() || !S_ISREG(out->st_mode) || out->st_nlink != 0) return;
  const int error = errno;
  static_cast<void>(serve(
      fd, "", true, [](int, const char*) { return 0; },
      [&](const tree_file& file) { return tell(file, out); }));
  errno = error;
}

int check_access(const tree_file& file, int wanted) {
  const bool writable = file.what->kind == node_kind::character_device;
  const bool executable = file.what->kind == node_kind::directory;
  if (((wanted & W_OK) != 0 && !writable) || ((wanted & X_OK) != 0 && !executable))
    return fails<int>(EACCES);
  return 0;
}

int access_any(int directory, const char* path, int wanted, int flags) {
  return serve(
      directory, path, (flags & AT_SYMLINK_NOFOLLOW) == 0,
      [&](int at, const char* name) { return c_library::faccessat::call(at, name, wanted, flags); },
      [&](const tree_file& file) { return check_access(file, wanted); });
}

template <class Kernels>
ssize_t attributes_of(const char* path, bool follow, ssize_t answer, Kernels kernels) {
  return serve(
      AT_FDCWD, path, follow, [&](int, const char* name) { return kernels(name); },
      [&](const tree_file&) { return answer < 0 ? fails<ssize_t>(EOPNOTSUPP) : answer; });
}

}  // namespace

extern "C" {

int softverbs_stat(const char* path, struct stat* out) asm("stat");
int softverbs_stat64(const char* path, struct stat* out) asm("stat64");
int softverbs_lstat(const char* path, struct stat* out) asm("lstat");
int softverbs_lstat64(const char* path, struct stat* out) asm("lstat64");
int softverbs_fstat(int fd, struct stat* out) asm("fstat");
int softverbs_fstat64(int fd, struct stat* out) asm("fstat64");
int softverbs_fstatat(int directory, const char* path, struct stat* out, int flags) asm("fstatat");
int softverbs_fstatat64(int directory, const char* path, struct stat* out,
                        int flags) asm("fstatat64");
int softverbs_xstat(int version, const char* path, struct stat* out) asm("__xstat");
int softverbs_xstat64(int version, const char* path, struct stat* out) asm("__xstat64");
int softverbs_lxstat(int version, const char* path, struct stat* out) asm("__lxstat");
int softverbs_lxstat64(int version, const char* path, struct stat* out) asm("__lxstat64");
int softverbs_fxstat(int version, int fd, struct stat* out) asm("__fxstat");
int softverbs_fxstat64(int version, int fd, struct stat* out) asm("__fxstat64");
int softverbs_fxstatat(int version, int directory, const char* path, struct stat* out,
                       int flags) asm("__fxstatat");
int softverbs_fxstatat64(int version, int directory, const char* path, struct stat* out,
                         int flags) asm("__fxstatat64");
int softverbs_statx(int directory, const char* path, int flags, unsigned mask,
                    struct ::statx* out) asm("statx");
int softverbs_access(const char* path, int wanted) asm("access");
int softverbs_faccessat(int directory, const char* path, int wanted, int flags) asm("faccessat");
int softverbs_euidaccess(const char* path, int wanted) asm("euidaccess");
int softverbs_eaccess(const char* path, int wanted) asm("eaccess");
ssize_t softverbs_getxattr(const char* path, const char* name, void* value,
                           size_t bytes) asm("getxattr");
ssize_t softverbs_lgetxattr(const char* path, const char* name, void* value,
                            size_t bytes) asm("lgetxattr");
ssize_t softverbs_listxattr(const char* path, char* list, size_t bytes) asm("listxattr");
ssize_t softverbs_llistxattr(const char* path, char* list, size_t bytes) asm("llistxattr");

int softverbs_stat(const char* path, struct stat* out) {
  if (!may_be_ours(path)) [[likely]]
    return c_library::stat::call(path, out);
  return stat_any(AT_FDCWD, path, out, 0);
}
int softverbs_lstat(const char* path, struct stat* out) {
  if (!may_be_ours(path)) [[likely]]
    return c_library::lstat::call(path, out);
  return stat_any(AT_FDCWD, path, out, AT_SYMLINK_NOFOLLOW);
}
int softverbs_fstat(int fd, struct stat* out) {
  const int failure = c_library::fstat::call(fd, out);
  if (failure == 0) correct(fd, out);
  return failure;
}
int softverbs_fstatat(int directory, const char* path, struct stat* out, int flags) {
  if (!may_be_ours(directory, path)) [[likely]]
    return c_library::fstatat::call(directory, path, out, flags);
  return stat_any(directory, path, out, flags);
}

int softverbs_stat64(const char* path, struct stat* out) { return softverbs_stat(path, out); }
int softverbs_lstat64(const char* path, struct stat* out) { return softverbs_lstat(path, out); }
int softverbs_fstat64(int fd, struct stat* out) { return softverbs_fstat(fd, out); }
int softverbs_fstatat64(int directory, const char* path, struct stat* out, int flags) {
  return softverbs_fstatat(directory, path, out, flags);
}

// What programs call that were built with a C library before glibc 2.33. Not the next definition
// but the kernel answers them: a sanitizer's, which cannot find the C library's old ones, would
// call ours again. On all machines with 64 bits, the struct of these versions is the kernel's.
int softverbs_xstat(int /*version*/, const char* path, struct stat* out) {
  return may_be_ours(path) ? stat_any(AT_FDCWD, path, out, 0)
                           : kernels_stat(AT_FDCWD, path, out, 0);
}
int softverbs_lxstat(int /*version*/, const char* path, struct stat* out) {
  return may_be_ours(path) ? stat_any(AT_FDCWD, path, out, AT_SYMLINK_NOFOLLOW)
                           : kernels_stat(AT_FDCWD, path, out, AT_SYMLINK_NOFOLLOW);
}
int softverbs_fxstat(int /*version*/, int fd, struct stat* out) {
  const int failure = kernels_stat(fd, "", out, AT_EMPTY_PATH);
  if (failure == 0) correct(fd, out);
  return failure;
}
int softverbs_fxstatat(int /*version*/, int directory, const char* path, struct stat* out,
                       int flags) {
  return may_be_ours(directory, path) ? stat_any(directory, path, out, flags)
                                      : kernels_stat(directory, path, out, flags);
}
int softverbs_xstat64(int version, const char* path, struct stat* out) {
  return softverbs_xstat(version, path, out);
}
int softverbs_lxstat64(int version, const char* path, struct stat* out) {
  return softverbs_lxstat(version, path, out);
}
int softverbs_fxstat64(int version, int fd, struct stat* out) {
  return softverbs_fxstat(version, fd, out);
}
int softverbs_fxstatat64(int version, int directory, const char* path, struct stat* out,
                         int flags) {
  return softverbs_fxstatat(version, directory, path, out, flags);
}

int softverbs_statx(int directory, const char* path, int flags, unsigned mask,
                    struct ::statx* out) {
  if (!may_be_ours(directory, path)) [[likely]]
    return c_library::statx::call(directory, path, flags, mask, out);
  return serve(
      directory, path, (flags & AT_SYMLINK_NOFOLLOW) == 0,
      [&](int at, const char* name) { return c_library::statx::call(at, name, flags, mask, out); },
      [&](const tree_file& file) { return tell(file, out); });
}

int softverbs_access(const char* path, int wanted) {
  if (!may_be_ours(path)) [[likely]]
    return c_library::access::call(path, wanted);
  return access_any(AT_FDCWD, path, wanted, 0);
}
int softverbs_faccessat(int directory, const char* path, int wanted, int flags) {
  if (!may_be_ours(directory, path)) [[likely]]
    return c_library::faccessat::call(directory, path, wanted, flags);
  return access_any(directory, path, wanted, flags);
}
int softverbs_euidaccess(const char* path, int wanted) {
  if (!may_be_ours(path)) [[likely]]
    return c_library::euidaccess::call(path, wanted);
  return access_any(AT_FDCWD, path, wanted, AT_EACCESS);
}
int softverbs_eaccess(const char* path, int wanted) { return softverbs_euidaccess(path, wanted); }

ssize_t softverbs_getxattr(const char* path, const char* name, void* value, size_t bytes) {
  const auto kernels = [&](const char* at) {
    return c_library::getxattr::call(at, name, value, bytes);
  };
  return may_be_ours(path) ? attributes_of(path, true, -1, kernels) : kernels(path);
}
ssize_t softverbs_lgetxattr(const char* path, const char* name, void* value, size_t bytes) {
  const auto kernels = [&](const char* at) {
    return c_library::lgetxattr::call(at, name, value, bytes);
  };
  return may_be_ours(path) ? attributes_of(path, false, -1, kernels) : kernels(path);
}
ssize_t softverbs_listxattr(const char* path, char* list, size_t bytes) {
  const auto kernels = [&](const char* at) { return c_library::listxattr::call(at, list, bytes); };
  return may_be_ours(path) ? attributes_of(path, true, 0, kernels) : kernels(path);
}
ssize_t softverbs_llistxattr(const char* path, char* list, size_t bytes) {
  const auto kernels = [&](const char* at) { return c_library::llistxattr::call(at, list, bytes); };
  return may_be_ours(path) ? attributes_of(path, false, 0, kernels) : kernels(path);
}

}  // extern "C"
