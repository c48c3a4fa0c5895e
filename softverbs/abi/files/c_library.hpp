// The functions of the C library that look at files by name, as the next library defines them.
#pragma once

#include <cstdio>

#include <abi/files/next_definition.hpp>
#include <dirent.h>
#include <sys/stat.h>
#include <sys/types.h>

namespace softverbs::abi::file_access::c_library {

// The 64-bit names are others for the same functions.
static_assert(sizeof(struct stat) == sizeof(struct stat64) && sizeof(dirent) == sizeof(dirent64) &&
              sizeof(off_t) == sizeof(off64_t));

using file_status = struct ::stat;
using extended_status = struct ::statx;

using open = next_definition<"open", int(const char*, int, ...)>;
using openat = next_definition<"openat", int(int, const char*, int, ...)>;
using fopen = next_definition<"fopen", std::FILE*(const char*, const char*)>;
using opendir = next_definition<"opendir", DIR*(const char*)>;
using fdopendir = next_definition<"fdopendir", DIR*(int)>;
using readdir = next_definition<"readdir", dirent*(DIR*)>;
using readdir_r = next_definition<"readdir_r", int(DIR*, dirent*, dirent**)>;
using closedir = next_definition<"closedir", int(DIR*)>;
using rewinddir = next_definition<"rewinddir", void(DIR*)>;
using seekdir = next_definition<"seekdir", void(DIR*, long)>;
using telldir = next_definition<"telldir", long(DIR*)>;
using dirfd = next_definition<"dirfd", int(DIR*)>;
using entry_filter = int (*)(const dirent*);
using entry_order = int (*)(const dirent**, const dirent**);
using scandir = next_definition<"scandir", int(const char*, dirent***, entry_filter, entry_order)>;
using scandirat =
    next_definition<"scandirat", int(int, const char*, dirent***, entry_filter, entry_order)>;
using stat = next_definition<"stat", int(const char*, file_status*)>;
using lstat = next_definition<"lstat", int(const char*, file_status*)>;
using fstat = next_definition<"fstat", int(int, file_status*)>;
using fstatat = next_definition<"fstatat", int(int, const char*, file_status*, int)>;
using statx = next_definition<"statx", int(int, const char*, int, unsigned, extended_status*)>;
using access = next_definition<"access", int(const char*, int)>;
using faccessat = next_definition<"faccessat", int(int, const char*, int, int)>;
using euidaccess = next_definition<"euidaccess", int(const char*, int)>;
using readlink = next_definition<"readlink", ssize_t(const char*, char*, size_t)>;
using readlinkat = next_definition<"readlinkat", ssize_t(int, const char*, char*, size_t)>;
using realpath = next_definition<"realpath", char*(const char*, char*)>;
using chdir = next_definition<"chdir", int(const char*)>;
using fchdir = next_definition<"fchdir", int(int)>;
using getcwd = next_definition<"getcwd", char*(char*, size_t)>;
using getxattr = next_definition<"getxattr", ssize_t(const char*, const char*, void*, size_t)>;
using lgetxattr = next_definition<"lgetxattr", ssize_t(const char*, const char*, void*, size_t)>;
using listxattr = next_definition<"listxattr", ssize_t(const char*, char*, size_t)>;
using llistxattr = next_definition<"llistxattr", ssize_t(const char*, char*, size_t)>;

template <class... Each>
void look_up_all() noexcept {
  (static_cast<void>(Each::get()), ...);
}

}  // namespace softverbs::abi::file_access::c_library
