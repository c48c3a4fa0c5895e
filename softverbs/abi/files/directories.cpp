// opendir(3) and its kin. A DIR* of ours points to a listing, and only functions here know it:
// those of the C library that take a DIR* are all here.

#include <algorithm>
#include <cstdlib>
#include <cstring>

#include <abi/files/listing.hpp>
#include <unistd.h>

using namespace softverbs;
using namespace softverbs::abi::file_access;

namespace {

DIR* listing_of(const tree_file& file, descriptor fd) {
  return listing::release(std::make_unique<listing>(std::move(fd), file));
}

DIR* open_directory(const tree_file& file) {
  auto fd = open_file(file, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  return fd ? listing_of(file, std::move(fd)) : nullptr;
}

/// Entries that the program frees one by one; -1 with errno.
int scan(const tree_file& file, dirent*** out, c_library::entry_filter filter,
         c_library::entry_order order) {
  if (file.what->kind != softverbs::files::node_kind::directory) return fails<int>(ENOTDIR);
  auto entries = entries_of(file);
  if (filter != nullptr) std::erase_if(entries, [&](const dirent& each) { return !filter(&each); });
  auto** const list =
      static_cast<dirent**>(std::calloc(std::max<std::size_t>(entries.size(), 1), sizeof(dirent*)));
  if (list == nullptr) return -1;
  for (std::size_t i = 0; i < entries.size(); ++i) {
    list[i] = static_cast<dirent*>(std::malloc(sizeof(dirent)));
    if (list[i] == nullptr) {
      std::for_each_n(list, i, [](dirent* each) { std::free(each); });
      std::free(static_cast<void*>(list));
      return -1;
    }
    std::memcpy(list[i], &entries[i], sizeof(dirent));
  }
  if (order != nullptr) {
    std::sort(list, list + entries.size(),
              [&](const dirent* a, const dirent* b) { return order(&a, &b) < 0; });
  }
  *out = list;
  return static_cast<int>(entries.size());
}

}  // namespace

extern "C" {

DIR* softverbs_opendir(const char* path) asm("opendir");
DIR* softverbs_fdopendir(int fd) asm("fdopendir");
dirent* softverbs_readdir(DIR* directory) asm("readdir");
dirent* softverbs_readdir64(DIR* directory) asm("readdir64");
int softverbs_readdir_r(DIR* directory, dirent* memory, dirent** result) asm("readdir_r");
int softverbs_readdir64_r(DIR* directory, dirent* memory, dirent** result) asm("readdir64_r");
int softverbs_closedir(DIR* directory) asm("closedir");
void softverbs_rewinddir(DIR* directory) asm("rewinddir");
void softverbs_seekdir(DIR* directory, long position) asm("seekdir");
long softverbs_telldir(DIR* directory) asm("telldir");
int softverbs_dirfd(DIR* directory) asm("dirfd");
int softverbs_scandir(const char* path, dirent*** out, c_library::entry_filter filter,
                      c_library::entry_order order) asm("scandir");
int softverbs_scandir64(const char* path, dirent*** out, c_library::entry_filter filter,
                        c_library::entry_order order) asm("scandir64");
int softverbs_scandirat(int at, const char* path, dirent*** out, c_library::entry_filter filter,
                        c_library::entry_order order) asm("scandirat");
int softverbs_scandirat64(int at, const char* path, dirent*** out, c_library::entry_filter filter,
                          c_library::entry_order order) asm("scandirat64");

DIR* softverbs_opendir(const char* path) {
  if (!may_be_ours(path)) [[likely]]
    return c_library::opendir::call(path);
  return serve(
      AT_FDCWD, path, true, [](int, const char* name) { return c_library::opendir::call(name); },
      open_directory);
}

DIR* softverbs_fdopendir(int fd) {
  if (!descriptors_exist()) [[likely]]
    return c_library::fdopendir::call(fd);
  return serve(
      fd, "", true, [&](int, const char*) { return c_library::fdopendir::call(fd); },
      [&](const tree_file& file) {
        return file.what->kind == softverbs::files::node_kind::directory
                   ? listing_of(file, descriptor(fd))
                   : fails<DIR*>(ENOTDIR);
      });
}

dirent* softverbs_readdir(DIR* directory) {
  auto* const ours = listing::of(directory);
  return ours == nullptr ? c_library::readdir::call(directory) : ours->next();
}
dirent* softverbs_readdir64(DIR* directory) { return softverbs_readdir(directory); }

int softverbs_readdir_r(DIR* directory, dirent* memory, dirent** result) {
  auto* const ours = listing::of(directory);
  if (ours == nullptr) return c_library::readdir_r::call(directory, memory, result);
  const auto* const entry = ours->next();
  if (entry != nullptr) std::memcpy(memory, entry, sizeof *entry);
  *result = entry == nullptr ? nullptr : memory;
  return 0;
}
int softverbs_readdir64_r(DIR* directory, dirent* memory, dirent** result) {
  return softverbs_readdir_r(directory, memory, result);
}

int softverbs_closedir(DIR* directory) {
  return listing::take(directory) == nullptr ? c_library::closedir::call(directory) : 0;
}

void softverbs_rewinddir(DIR* directory) {
  auto* const ours = listing::of(directory);
  if (ours == nullptr) {
    c_library::rewinddir::call(directory);
  } else {
    without_exceptions([&] { ours->rewind(); });
  }
}

void softverbs_seekdir(DIR* directory, long position) {
  auto* const ours = listing::of(directory);
  if (ours == nullptr) {
    c_library::seekdir::call(directory, position);
  } else {
    ours->move_to(static_cast<std::size_t>(position));
  }
}

long softverbs_telldir(DIR* directory) {
  auto* const ours = listing::of(directory);
  return ours == nullptr ? c_library::telldir::call(directory)
                         : static_cast<long>(ours->position());
}

int softverbs_dirfd(DIR* directory) {
  auto* const ours = listing::of(directory);
  return ours == nullptr ? c_library::dirfd::call(directory) : ours->fd();
}

int softverbs_scandirat(int at, const char* path, dirent*** out, c_library::entry_filter filter,
                        c_library::entry_order order) {
  if (!may_be_ours(at, path)) [[likely]]
    return c_library::scandirat::call(at, path, out, filter, order);
  return serve(
      at, path, true,
      [&](int directory, const char* name) {
        return c_library::scandirat::call(directory, name, out, filter, order);
      },
      [&](const tree_file& file) { return scan(file, out, filter, order); });
}
int softverbs_scandirat64(int at, const char* path, dirent*** out, c_library::entry_filter filter,
                          c_library::entry_order order) {
  return softverbs_scandirat(at, path, out, filter, order);
}
int softverbs_scandir(const char* path, dirent*** out, c_library::entry_filter filter,
                      c_library::entry_order order) {
  if (!may_be_ours(path)) [[likely]]
    return c_library::scandir::call(path, out, filter, order);
  return softverbs_scandirat(AT_FDCWD, path, out, filter, order);
}
int softverbs_scandir64(const char* path, dirent*** out, c_library::entry_filter filter,
                        c_library::entry_order order) {
  return softverbs_scandir(path, out, filter, order);
}

}  // extern "C"
