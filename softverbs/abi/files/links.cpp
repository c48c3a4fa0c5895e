// readlink(2) and realpath(3).

#include <algorithm>
#include <climits>
#include <cstdlib>
#include <cstring>

#include <abi/files/lookup.hpp>

using namespace softverbs::abi::file_access;

namespace {

ssize_t tell_target(const tree_file& file, char* out, std::size_t bytes) {
  if (file.what->kind != softverbs::files::node_kind::symlink) return fails<ssize_t>(EINVAL);
  return static_cast<ssize_t>(file.what->text.copy(out, bytes));
}

char* tell_path(const tree_file& file, char* out) {
  if (out == nullptr) return ::strdup(file.path.c_str());
  if (file.path.size() >= PATH_MAX) return fails<char*>(ENAMETOOLONG);
  std::memcpy(out, file.path.c_str(), file.path.size() + 1);
  return out;
}

}  // namespace

extern "C" {

ssize_t softverbs_readlink(const char* path, char* out, size_t bytes) asm("readlink");
ssize_t softverbs_readlinkat(int at, const char* path, char* out, size_t bytes) asm("readlinkat");
char* softverbs_realpath(const char* path, char* out) asm("realpath");
char* softverbs_canonicalize(const char* path) asm("canonicalize_file_name");
// What compilers call with _FORTIFY_SOURCE.
ssize_t softverbs_readlink_chk(const char* path, char* out, size_t bytes,
                               size_t room) asm("__readlink_chk");
ssize_t softverbs_readlinkat_chk(int at, const char* path, char* out, size_t bytes,
                                 size_t room) asm("__readlinkat_chk");
char* softverbs_realpath_chk(const char* path, char* out, size_t room) asm("__realpath_chk");

ssize_t softverbs_readlink(const char* path, char* out, size_t bytes) {
  if (!may_be_ours(path)) [[likely]]
    return c_library::readlink::call(path, out, bytes);
  return softverbs_readlinkat(AT_FDCWD, path, out, bytes);
}

ssize_t softverbs_readlinkat(int at, const char* path, char* out, size_t bytes) {
  if (!may_be_ours(at, path)) [[likely]]
    return c_library::readlinkat::call(at, path, out, bytes);
  return serve(
      at, path, false,
      [&](int directory, const char* name) {
        return c_library::readlinkat::call(directory, name, out, bytes);
      },
      [&](const tree_file& file) { return tell_target(file, out, bytes); });
}

char* softverbs_realpath(const char* path, char* out) {
  if (!may_be_ours(path)) [[likely]]
    return c_library::realpath::call(path, out);
  return serve(
      AT_FDCWD, path, true,
      [&](int, const char* name) { return c_library::realpath::call(name, out); },
      [&](const tree_file& file) { return tell_path(file, out); });
}

char* softverbs_canonicalize(const char* path) { return softverbs_realpath(path, nullptr); }

ssize_t softverbs_readlink_chk(const char* path, char* out, size_t bytes, size_t room) {
  if (bytes > room) std::abort();
  return softverbs_readlink(path, out, bytes);
}
ssize_t softverbs_readlinkat_chk(int at, const char* path, char* out, size_t bytes, size_t room) {
  if (bytes > room) std::abort();
  return softverbs_readlinkat(at, path, out, bytes);
}
char* softverbs_realpath_chk(const char* path, char* out, size_t room) {
  if (out != nullptr && room < PATH_MAX) std::abort();
  return softverbs_realpath(path, out);
}

}  // extern "C"
