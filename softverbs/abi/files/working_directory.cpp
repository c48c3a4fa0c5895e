#include <abi/files/working_directory.hpp>

#include <algorithm>
#include <climits>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <utility>

#include <abi/files/lookup.hpp>

namespace softverbs::abi::file_access {
namespace working_directory {
namespace {

struct state {
  std::mutex mutex;
  std::string path;
};

// Never destroyed: destructors of static objects may still use relative paths.
state& present() {
  static auto* const only = new state;
  return *only;
}

}  // namespace

std::string path() {
  if (!is_in_tree()) return {};
  auto& now = present();
  const std::lock_guard lock(now.mutex);
  return now.path;
}

void set(std::string path) {
  auto& now = present();
  const std::lock_guard lock(now.mutex);
  detail::is_in_tree.store(!path.empty(), std::memory_order_release);
  now.path = std::move(path);
}

}  // namespace working_directory

namespace {

void enter_nearest_real(std::string path) {
  while (c_library::chdir::call(path.c_str()) != 0 && path != "/") {
    const auto parent = path.rfind('/');
    path.resize(std::max<std::size_t>(parent, 1));
  }
}

int enter(const tree_file& file) {
  if (file.what->kind != softverbs::files::node_kind::directory) return fails<int>(ENOTDIR);
  working_directory::set(file.path);
  enter_nearest_real(file.path);
  return 0;
}

/// What the kernel's call has returned.
int entered_kernels(int result) {
  if (result == 0 && working_directory::is_in_tree()) working_directory::set({});
  return result;
}

/// As getcwd(3) of the GNU C library: memory of that size, or as much as it takes, if there is
/// none.
char* tell_working_directory(char* out, std::size_t bytes) try {
  const auto path = working_directory::path();
  if (out == nullptr && bytes == 0) bytes = path.size() + 1;
  if (bytes <= path.size()) return fails<char*>(ERANGE);
  auto* const memory = out != nullptr ? out : static_cast<char*>(std::malloc(bytes));
  if (memory != nullptr) std::memcpy(memory, path.c_str(), path.size() + 1);
  return memory;
} catch (...) {
  return fails<char*>(errno_of_exception());
}

}  // namespace
}  // namespace softverbs::abi::file_access

using namespace softverbs::abi::file_access;

extern "C" {

int softverbs_chdir(const char* path) asm("chdir");
int softverbs_fchdir(int fd) asm("fchdir");
char* softverbs_getcwd(char* out, size_t bytes) asm("getcwd");
char* softverbs_getcwd_chk(char* out, size_t bytes, size_t room) asm("__getcwd_chk");
char* softverbs_get_current_dir_name() asm("get_current_dir_name");

int softverbs_chdir(const char* path) {
  if (!may_be_ours(path)) [[likely]]
    return entered_kernels(c_library::chdir::call(path));
  return serve(
      AT_FDCWD, path, true,
      [](int, const char* name) { return entered_kernels(c_library::chdir::call(name)); }, enter);
}

int softverbs_fchdir(int fd) {
  if (!descriptors_exist()) [[likely]]
    return entered_kernels(c_library::fchdir::call(fd));
  return serve(
      fd, "", true, [&](int, const char*) { return entered_kernels(c_library::fchdir::call(fd)); },
      enter);
}

char* softverbs_getcwd(char* out, size_t bytes) {
  if (!working_directory::is_in_tree()) [[likely]]
    return c_library::getcwd::call(out, bytes);
  return tell_working_directory(out, bytes);
}

char* softverbs_getcwd_chk(char* out, size_t bytes, size_t room) {
  if (bytes > room) std::abort();
  return softverbs_getcwd(out, bytes);
}

char* softverbs_get_current_dir_name() { return softverbs_getcwd(nullptr, 0); }

}  // extern "C"
