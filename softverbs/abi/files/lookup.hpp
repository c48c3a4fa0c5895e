// What a path that a program hands to the C library means: a name of the tree of soft devices, or
// nothing of ours.
//
// Descriptors of the tree's files are memfds. A memfd's name says which file it stands for, so that
// copies of a descriptor are recognised, too, and nothing has to be remembered until it is closed.
//
// Any thread may call any function. No exception leaves serve().
#pragma once

#include <cerrno>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>

#include <abi/files/c_library.hpp>
#include <abi/files/working_directory.hpp>
#include <base/c_function.hpp>
#include <base/descriptor.hpp>
#include <fcntl.h>
#include <files/tree.hpp>

namespace softverbs::abi::file_access {

/// While it lives, this thread sees the kernel's files alone: the real libraries look for devices
/// that are theirs.
class kernel_files_only {
 public:
  kernel_files_only() noexcept;
  kernel_files_only(const kernel_files_only&) = delete;
  kernel_files_only& operator=(const kernel_files_only&) = delete;
  ~kernel_files_only();
};

/// A file of the tree, with the tree that it is from.
struct tree_file {
  softverbs::files::tree tree;
  std::string path;
  const softverbs::files::node* what = nullptr;
};

struct lookup {
  std::optional<tree_file> file;
  std::string kernel_path;  ///< what to ask the kernel for, if it is none of ours
  int error = 0;            ///< of a path that is ours and leads nowhere
};

/// Of an absolute path.
[[nodiscard]] lookup look_up(std::string_view path, bool follow);

/// The path of the tree's file that a descriptor stands for; empty if it is none of ours.
[[nodiscard]] std::string path_of_descriptor(int fd);

/// Whether any descriptor of the tree has been given out by this process.
[[nodiscard]] bool descriptors_exist() noexcept;

/// A new descriptor of the file; none with errno.
[[nodiscard]] descriptor open_file(const tree_file& file, int flags);

/// Whether it is worth looking up. An empty path with a descriptor means the descriptor's file.
[[nodiscard]] inline bool may_be_ours(const char* path) noexcept {
  return softverbs::files::may_be_in_tree(path) ||
         (working_directory::is_in_tree() && path != nullptr && path[0] != '/');
}
[[nodiscard]] inline bool may_be_ours(int directory, const char* path) noexcept {
  if (directory == AT_FDCWD) return may_be_ours(path);
  if (path == nullptr) return false;
  return path[0] == '/' ? softverbs::files::may_be_in_tree(path) : descriptors_exist();
}

/// -1 or null, with errno.
template <class Result>
[[nodiscard]] Result fails(int error) noexcept {
  errno = error;
  if constexpr (std::is_pointer_v<Result>) {
    return nullptr;
  } else {
    return -1;
  }
}

/// Calls `ours` with the tree_file, or `kernels` with a directory and a path.
template <class Kernels, class Ours>
auto serve(int directory, const char* path, bool follow, Kernels kernels, Ours ours) noexcept {
  using result = decltype(kernels(directory, path));
  const int error_before = errno;
  try {
    std::string whole(path);
    if (path[0] != '/') {
      auto from = directory == AT_FDCWD ? working_directory::path() : path_of_descriptor(directory);
      if (from.empty()) {
        errno = error_before;
        return kernels(directory, path);
      }
      whole = whole.empty() ? std::move(from) : from + "/" + whole;
    }
    auto found = look_up(whole, follow);
    if (found.error != 0) return fails<result>(found.error);
    errno = error_before;
    if (found.file) return static_cast<result>(ours(*found.file));
    return kernels(AT_FDCWD, found.kernel_path.c_str());
  } catch (...) {
    return fails<result>(errno_of_exception());
  }
}

}  // namespace softverbs::abi::file_access
