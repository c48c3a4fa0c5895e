// open(2) and its kin.
//
// The functions here have the names of the C library's as their symbols alone, because its headers
// declare some of those names with attributes, exception specifications and inline bodies of their
// own.

#include <cstdarg>
#include <cstdio>
#include <cstring>

#include <abi/files/lookup.hpp>

using namespace softverbs::abi::file_access;

namespace {

constexpr bool takes_mode(int flags) {
  return (flags & O_CREAT) != 0 || (flags & O_TMPFILE) == O_TMPFILE;
}

int open_any(int directory, const char* path, int flags, mode_t mode) {
  return serve(
      directory, path, (flags & O_NOFOLLOW) == 0,
      [&](int at, const char* name) { return c_library::openat::call(at, name, flags, mode); },
      [&](const tree_file& file) { return open_file(file, flags).release(); });
}

std::FILE* open_stream(const char* path, const char* mode) {
  const bool reads = mode[0] == 'r' && std::strchr(mode, '+') == nullptr;
  const int flags =
      (reads ? O_RDONLY : O_RDWR) | (std::strchr(mode, 'e') != nullptr ? O_CLOEXEC : 0);
  return serve(
      AT_FDCWD, path, true,
      [&](int, const char* name) { return c_library::fopen::call(name, mode); },
      [&](const tree_file& file) -> std::FILE* {
        auto fd = open_file(file, flags);
        auto* const stream = fd ? ::fdopen(fd.get(), mode) : nullptr;
        if (stream != nullptr) static_cast<void>(fd.release());  // it closes it
        return stream;
      });
}

}  // namespace

extern "C" {

int softverbs_open(const char* path, int flags, ...) asm("open");
int softverbs_open64(const char* path, int flags, ...) asm("open64");
int softverbs_openat(int directory, const char* path, int flags, ...) asm("openat");
int softverbs_openat64(int directory, const char* path, int flags, ...) asm("openat64");
// What compilers call with _FORTIFY_SOURCE where no mode is given.
int softverbs_open_2(const char* path, int flags) asm("__open_2");
int softverbs_open64_2(const char* path, int flags) asm("__open64_2");
int softverbs_openat_2(int directory, const char* path, int flags) asm("__openat_2");
int softverbs_openat64_2(int directory, const char* path, int flags) asm("__openat64_2");
std::FILE* softverbs_fopen(const char* path, const char* mode) asm("fopen");
std::FILE* softverbs_fopen64(const char* path, const char* mode) asm("fopen64");

int softverbs_open(const char* path, int flags, ...) {
  mode_t mode = 0;
  if (takes_mode(flags)) {
    va_list rest;
    va_start(rest, flags);
    mode = va_arg(rest, mode_t);
    va_end(rest);
  }
  if (!may_be_ours(path)) [[likely]]
    return c_library::open::call(path, flags, mode);
  return open_any(AT_FDCWD, path, flags, mode);
}

int softverbs_open64(const char* path, int flags, ...) {
  mode_t mode = 0;
  if (takes_mode(flags)) {
    va_list rest;
    va_start(rest, flags);
    mode = va_arg(rest, mode_t);
    va_end(rest);
  }
  return softverbs_open(path, flags | O_LARGEFILE, mode);
}

int softverbs_openat(int directory, const char* path, int flags, ...) {
  mode_t mode = 0;
  if (takes_mode(flags)) {
    va_list rest;
    va_start(rest, flags);
    mode = va_arg(rest, mode_t);
    va_end(rest);
  }
  if (!may_be_ours(directory, path)) [[likely]]
    return c_library::openat::call(directory, path, flags, mode);
  return open_any(directory, path, flags, mode);
}

int softverbs_openat64(int directory, const char* path, int flags, ...) {
  mode_t mode = 0;
  if (takes_mode(flags)) {
    va_list rest;
    va_start(rest, flags);
    mode = va_arg(rest, mode_t);
    va_end(rest);
  }
  return softverbs_openat(directory, path, flags | O_LARGEFILE, mode);
}

int softverbs_open_2(const char* path, int flags) { return softverbs_open(path, flags); }
int softverbs_open64_2(const char* path, int flags) { return softverbs_open64(path, flags); }
int softverbs_openat_2(int directory, const char* path, int flags) {
  return softverbs_openat(directory, path, flags);
}
int softverbs_openat64_2(int directory, const char* path, int flags) {
  return softverbs_openat64(directory, path, flags);
}

std::FILE* softverbs_fopen(const char* path, const char* mode) {
  if (!may_be_ours(path)) [[likely]]
    return c_library::fopen::call(path, mode);
  return open_stream(path, mode);
}
std::FILE* softverbs_fopen64(const char* path, const char* mode) {
  return softverbs_fopen(path, mode);
}

}  // extern "C"
